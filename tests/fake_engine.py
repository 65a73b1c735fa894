"""A small server that speaks vLLM's dialect, for tests: `python tests/fake_engine.py PORT [--die-after N] …`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import threading
import time
from typing import Any

METRICS = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="{model}"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="{model}"}} 0.0
vllm:kv_cache_usage_perc{{engine="0",model_name="{model}"}} 0.25
vllm:num_preemptions_total{{engine="0",model_name="{model}"}} 0.0
vllm:prompt_tokens_total{{engine="0",model_name="{model}"}} {prompt}
vllm:generation_tokens_total{{engine="0",model_name="{model}"}} {generated}
"""


class Server:
    """Answers as many completions as it is allowed to, one token every `gap_s`, then dies where it stands."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.running = self.prompt = self.generated = self.served = self.looks = 0

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, path, _ = head.decode().split(" ", 2)
                if self.options.key and f"Bearer {self.options.key}".encode() not in head:
                    await send_page(writer, 401, "")
                elif method == "POST":
                    size = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
                    body = json.loads(await reader.readexactly(size))
                    answer = self.tokenize if path == "/tokenize" else self.completion
                    await answer(writer, body)
                else:
                    await send_page(writer, *self.page(path))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def page(self, path: str) -> tuple[int, str]:
        if path == "/health":
            self.looks += 1
            return (503 if self.options.never_ready or self.looks > self.options.healthy else 200), ""
        if path == "/metrics":
            counters = {"running": self.running, "prompt": self.prompt, "generated": self.generated}
            return 200, METRICS.format(**counters, model=self.options.leak or "tiny")
        leak = self.options.leak
        models = {"data": [{"id": self.options.model, "root": f"/home/someone/tiny{leak}", leak or "owned_by": leak}]}
        slot = {"id": leak, "n_prompt_tokens_processed": leak, "n_prompt_tokens_cache": 0, "is_processing": True}
        pages = {
            "/version": {"version": f"9.9.9{leak}"},
            "/v1/models": models,
            "/props": {"build_info": f"b1{leak}"},
            "/slots": [slot | {"next_token": {"n_decoded": 1}}],
        }
        return (200, json.dumps(pages[path])) if path in pages else (404, "")

    async def tokenize(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        """A token a word; `--no-tokenize` knows no such page."""
        assert not body["add_special_tokens"]
        tokens = list(range(len(body["prompt"].split())))
        answer = json.dumps({"count": len(tokens), "max_model_len": 4096, "tokens": tokens})
        await send_page(writer, *((404, "") if self.options.no_tokenize else (200, answer)))

    async def completion(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        self.served += 1
        if self.options.die_after is not None and self.served > self.options.die_after:
            print(f"fatal: out of luck{self.options.leak}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.options.fail_every and self.served % self.options.fail_every == 0:
            await send_page(writer, 500, "x" * 1990 + f" {self.options.leak} is no key")  # a cut at 2,000 tears it
            return
        self.running += 1
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            await self.stream(writer, body)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            self.running -= 1
        print(f"served {self.served} from /home/someone/models with {self.options.say}", flush=True)

    async def stream(self, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        asked, wanted = self.asked(body), min(body["max_tokens"], self.options.stop_at)
        self.prompt += asked
        if self.options.echo:
            print("asked", json.dumps(body.get("messages") or body["prompt"]), flush=True)
        for place in range(wanted):
            await asyncio.sleep(self.options.gap_s)
            self.generated += 1
            finish = (self.options.leak or "length") if place == wanted - 1 else None
            said = {"delta": {"content": self.text(place)}} if "messages" in body else {"text": self.text(place)}
            ids = {} if self.options.no_usage else {"token_ids": [place + 300]}
            await send(writer, json.dumps({"choices": [{"index": 0, **said, "finish_reason": finish} | ids]}))
        usage = {"prompt_tokens": asked, "completion_tokens": wanted, "total_tokens": asked + wanted}
        told = {"metrics": {self.options.leak: 1}} if self.options.leak else {}
        if not self.options.no_usage:
            await send(writer, json.dumps({"choices": [], "usage": usage, **told}))
        await send(writer, "[DONE]")

    def asked(self, body: dict[str, Any]) -> int:
        """Token ids, or words, of what was asked."""
        text = " ".join(message["content"] for message in body["messages"]) if "messages" in body else body["prompt"]
        return len(text.split() if isinstance(text, str) else text)

    def text(self, place: int) -> str:
        """What is to leak comes in two events."""
        middle = len(self.options.leak) // 2
        return {0: self.options.leak[:middle], 1: self.options.leak[middle:]}.get(place, "") or " a"


async def send_page(writer: asyncio.StreamWriter, status: int, text: str) -> None:
    writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())
    await writer.drain()


async def send(writer: asyncio.StreamWriter, payload: str) -> None:
    event = f"data: {payload}\n\n"
    writer.write(f"{len(event):x}\r\n{event}\r\n".encode())
    await writer.drain()


def flood() -> None:
    """A megabyte of lines every ten milliseconds, as far as somebody reads them."""
    block = (b"x" * 99 + b"\n") * 10_000
    due_s = time.monotonic()
    while True:
        os.write(1, block)
        due_s = max(due_s + 0.01, time.monotonic() - 1)
        time.sleep(max(0, due_s - time.monotonic()))


async def serve(options: argparse.Namespace) -> None:
    server = await asyncio.start_server(Server(options).connection, "127.0.0.1", options.port)
    print(f"KV cache size: 1,000 tokens; listening; {options.say}", flush=True)
    if options.flood:
        threading.Thread(target=flood, daemon=True).start()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--die-after", type=int)
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--key")
    parser.add_argument("--say", default="nothing")
    parser.add_argument("--leak", default="", help="a text to put wherever a server can put text")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--healthy", type=int, default=10**9, help="how many looks find it so")
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--no-usage", action="store_true", help="say of no answer how many tokens it has")
    parser.add_argument("--no-tokenize", action="store_true")
    parser.add_argument("--stop-at", type=int, default=10**9, help="tokens after which an answer ends at the latest")
    parser.add_argument("--echo", action="store_true", help="log what was asked")
    parser.add_argument("--flood", action="store_true", help="log 100 MB/s")
    parser.add_argument("--gap-s", type=float, default=0.001)
    asyncio.run(serve(parser.parse_args()))
