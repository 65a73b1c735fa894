"""What never reaches a sealed file: keys, paths outside the system's own folders, host and user names.

Markers (`<path>`, `<secret>`, …) hold no character that a rule matches, so redacting twice changes nothing.
"""

from __future__ import annotations

import getpass
import os
import platform
import re
import socket
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import psutil

PATH, SECRET, HOST, USER, WORD = "<path>", "<secret>", "<host>", "<user>", "<redacted>"
MARKERS = "<(?:path|secret|host|user|redacted)>"
# folders of the system itself, which name nobody
SYSTEM = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "lost+found", "nix", "proc", "run", "sbin",
    "snap", "sys", "usr", "var",
]  # fmt: skip
# homes, working, temporary, optional and mounted folders; the recording machine's own top folders are added
PRIVATE = [
    "home", "root", "work", "workspace", "workspaces", "tmp", "opt", "mnt", "media", "srv", "data", "scratch",
    "storage", "content", "projects", "Users", "Volumes", "private", "export", "run/media", "run/user", "run/mount",
    "var/tmp", "var/home", "var/folders", "var/www",
]  # fmt: skip
# those of them that no web address is expected to hold: logs of several processes run into each other in a line
NO_ROUTE = ["home", "root", "work", "workspace", "tmp", "opt", "mnt", "Users", "var/tmp"]
# folders whose subfolders are named after people
HOMES = {"home", "Users", "export/home", "var/home", "run/media", "run/user"}
GENERIC = {
    "root", "user", "users", "admin", "administrator", "ubuntu", "debian", "runner", "builder", "jovyan", "app",
    "nobody", "daemon", "www-data", "localhost", "localdomain", "host", "server", "client", "machine", "vm",
    "docker", "container", "node", "none", "linux",
}  # fmt: skip
# words of engines, of their interfaces, counters, logs and tensors: a user or a host may be called so, but not everything
# that is called so is that user or host
ORDINARY = {
    "api", "attention", "attn", "auto", "batch", "bench", "benchmark", "bf16", "block", "blocks", "bucket", "cache",
    "chat", "chunk", "client", "completion", "completions", "config", "content", "context", "core", "count", "cpu", "cuda",
    "data", "debug", "decode", "default", "dev", "device", "embedding", "embeddings", "engine", "error", "false", "finish",
    "float", "fp16", "fp32", "fp8", "generation", "ggml", "gguf", "gpu", "head", "heads", "health", "home", "http", "https",
    "huggingface", "index", "inference", "info", "init", "input", "kernel", "lab", "layer", "layers", "length", "list",
    "llama", "llamacpp", "llm", "lmdeploy", "load", "local", "log", "main", "max", "mean", "memory", "message", "metrics",
    "min", "mlp", "mode", "model", "models", "name", "norm", "null", "num", "object", "ollama", "openai", "output", "path",
    "perf", "pid", "platform", "pool", "port", "prefill", "process", "prometheus", "prompt", "prompts", "props", "python",
    "queue", "quant", "rate", "ray", "redacted", "request", "requests", "research", "result", "role", "run", "running",
    "sampling", "scheduler", "secret", "self", "seq", "serve", "server", "service", "serving", "sglang", "size", "slot",
    "slots", "speed", "state", "stop", "stream", "sum", "system", "task", "tensor", "tensors", "test", "tests", "text",
    "tgi", "thread", "threads", "time", "timings", "token", "tokens", "torch", "total", "transformers", "triton", "true",
    "type", "usage", "user", "uvicorn", "value", "version", "vllm", "waiting", "warning", "web", "weight", "weights",
    "work", "worker",
}  # fmt: skip
# after what a word is a name, whatever the word; before and behind an @ and in the place of a host it is one too
NAME_KEYS = r"(?:user(?:_?name)?|login|logname|owner|(?:host|node)(?:_?name)?|fqdn)"
AFTER_KEY = (
    rf"(?i:(?<![A-Za-z0-9]){NAME_KEYS}[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}[\"']?|--{NAME_KEYS}[ \t=]{{1,4}}"
    r"|uid=\d{1,9}\()"
)
PORT = r":\d{2,5}(?!\w)"  # behind a host
INTERNET = (socket.AF_INET, socket.AF_INET6)
SHORTEST = 4  # a shorter secret is a placeholder, and would tear words apart
TORN = 8  # so many first characters of one, or half of it, are a secret that a broken stream cut off

COMPONENT = r"""[^\s\x00-\x1f\x7f/"'`<>|:;,()\[\]{}\\]"""
SECRET_NAMES = (
    r"(?:x-)?api[_-]?key|(?:access|auth|hf|bearer)[_-]?token|(?:client[_-]?)?secret(?:[_-]?key)?|passw(?:or)?d"
)
_VALUE = r"""[^\s"',;&<>()\[\]{}\\]"""
_NO_VALUE = rf"(?!(?:none|null|true|false)(?!{_VALUE}))"
_GAP = r"""["']?[ \t]{0,8}[:=][ \t]{0,8}\[?\\?["']?"""
SECRETS = [
    # Authorization: Bearer x; {"Authorization": "Basic x"}
    (
        rf"(?i)(\b(?:proxy-)?authorization{_GAP}(?:(?:bearer|basic|token|digest)[ \t]{{1,8}})?+){_NO_VALUE}{_VALUE}+",
        rf"\1{SECRET}",
    ),
    (r"(?i)(\bbearer[ \t]{1,8})(?!<)[A-Za-z0-9._~+/=-]{8,}", rf"\1{SECRET}"),
    # api_key=x, 'api_key': ['x'], --api-key x, '--api-key', 'x'
    (rf"(?i)((?<![A-Za-z0-9])(?:{SECRET_NAMES}){_GAP}){_NO_VALUE}{_VALUE}+", rf"\1{SECRET}"),
    (rf"""(?i)(--(?:{SECRET_NAMES})["']?[ \t,]{{1,8}}["']?){_NO_VALUE}{_VALUE}+""", rf"\1{SECRET}"),
    # HF_TOKEN=x
    (
        rf"(\b[A-Z][A-Z0-9_]{{0,60}}_(?:TOKEN|KEY|SECRET|PASSWORD){_GAP})(?!\d{{1,6}}(?!{_VALUE})){_NO_VALUE}{_VALUE}+",
        rf"\1{SECRET}",
    ),
    # keys that are known by their shape
    (r"\b(?:sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})", SECRET),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", SECRET),
]
NAME_KEY = re.compile(f"(?i:{NAME_KEYS})")
SECRET_FLAG = re.compile(rf"(?i)--(?:{SECRET_NAMES})")
SECRET_KEY = re.compile(rf"(?i)(?:(?:proxy-)?authorization|{SECRET_NAMES})|[A-Z0-9_]*_(?-i:TOKEN|KEY|SECRET|PASSWORD)")


class Redactor:
    """Replaces what must not be published, in text and in JSON-like values; `rules` says in words what.

    `extra`: strings, or path prefixes (they begin with /), that the plan adds. `secrets`: values of keys. `known`: words
    that mean something else in this round, such as the plan's ids; a user or host of that name is found only where
    nothing but a name can stand.
    """

    def __init__(self, extra: Iterable[str] = (), secrets: Iterable[str] = (), known: Iterable[str] = ()) -> None:
        extra = [text for text in extra if text]
        folders = [text.strip("/") for text in extra if text.startswith("/")]
        words = [text for text in extra if not text.startswith("/")]
        secrets = [text for text in secrets if len(text) >= SHORTEST]
        self._secrets, self._torn = _literal(secrets), secrets
        self._patterns = [(re.compile(pattern), new) for pattern, new in SECRETS]
        self._words = _literal(words)
        hosts, users, ordinary = _hosts(), _users(), ORDINARY | {word.lower() for word in known}
        self._ordinary = ordinary
        self._names = [(_named(hosts, ordinary, PORT), HOST), (_named(users, ordinary), USER)]
        self._alone = dict.fromkeys(users, USER) | dict.fromkeys(hosts, HOST)
        self._paths = _paths(folders + _own_folders())
        self.rules = _rules(len(secrets), len(words), len(folders))

    def text(self, text: str) -> str:
        """The text with markers in place of secrets, names and paths; a second call changes nothing."""
        text = self._without_torn_end(_outside_markers(self._secrets, SECRET, text))
        for pattern, new in self._patterns:
            text = pattern.sub(new, text)
        text = _outside_markers(self._words, WORD, text)
        for pattern, new in self._names:
            text = pattern.sub(lambda found, new=new: found["marker"] or (found["key"] or "") + new, text)
        return self._paths.sub(_shown, text)

    def _without_torn_end(self, text: str) -> str:
        """An engine that dies within a secret leaves its beginning at the end of what it wrote."""
        for secret in self._torn:
            for length in range(len(secret) - 1, max(SHORTEST, min(len(secret) // 2, TORN)) - 1, -1):
                if text.endswith(secret[:length]) and secret[:length].lower() not in self._ordinary:
                    return text[:-length] + SECRET if not text.endswith(SECRET) else text
        return text

    def value(self, value: Any) -> Any:
        """JSON-like data with every text in it, keys included, redacted, and the values of secret keys replaced."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self._of(key, inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return self._items(list(value))
        return value

    def _of(self, key: Any, value: Any) -> Any:
        if not (isinstance(key, str) and isinstance(value, str) and value):
            return self.value(value)
        if SECRET_KEY.fullmatch(key):
            return SECRET
        return self._alone.get(value) if NAME_KEY.fullmatch(key) and value in self._alone else self.text(value)

    def _items(self, items: list[Any]) -> list[Any]:
        flags = [isinstance(item, str) and SECRET_FLAG.fullmatch(item) for item in [None, *items]]
        return [
            SECRET if flag and isinstance(item, str) else self.value(item)
            for flag, item in zip(flags, items, strict=False)
        ]


def _either(texts: Collection[str]) -> str:
    return "|".join(map(re.escape, sorted(set(texts), key=lambda text: (-len(text), text)))) or "(?!)"


def _literal(texts: Collection[str]) -> re.Pattern[str] | None:
    return re.compile(f"{MARKERS}|{_either(texts)}") if texts else None


def _outside_markers(pattern: re.Pattern[str] | None, new: str, text: str) -> str:
    return pattern.sub(lambda found: found[0] if re.fullmatch(MARKERS, found[0]) else new, text) if pattern else text


def _named(names: Collection[str], ordinary: Collection[str], *places: str) -> re.Pattern[str]:
    """Names as whole words, and ordinary words among them only where a name stands; `places`: what may follow one."""
    words = {name for name in names if name.lower() in ordinary}
    telling, word = _either(set(names) - words), _either(words)
    before = "|".join([r"@(?:[A-Za-z]|<(?!path>))", *places])
    return re.compile(
        rf"(?P<marker>{MARKERS})"
        rf"|(?<![\w-])(?:{telling})(?![\w-])"
        rf"|(?<![\w.-])(?:{word})(?={before})"
        rf"|(?<=[\w>]@)(?:{word})(?![\w-])|(?<=://)(?:{word})(?![\w.-])"
        rf"|(?P<key>{AFTER_KEY})(?:{word})(?![\w-])"
    )


def _hosts() -> set[str]:
    """Names and addresses of this machine, without those that any machine has."""
    node = platform.node()
    found = [address for addresses in psutil.net_if_addrs().values() for address in addresses]
    addresses = {address.address.split("%")[0] for address in found if address.family in INTERNET}
    local = {a for a in addresses if a.startswith(("127.", "169.254.", "fe80:")) or a == "::1"}
    return {name for name in (node, node.split(".")[0]) if _telling(name)} | (addresses - local)


def _users() -> set[str]:
    try:
        names = {getpass.getuser(), Path.home().name}
    except (OSError, KeyError, RuntimeError):
        names = set()
    return {name for name in names if _telling(name)}


def _telling(name: str) -> bool:
    return len(name) > 2 and name.lower() not in GENERIC and not name.isdigit() and " " not in name


def _own_folders() -> list[str]:
    """This machine's top folders beside the system's; also the home and working folder where they hold a space."""
    top = [entry.name for entry in os.scandir("/") if entry.is_dir() and entry.name not in SYSTEM]
    return top + [str(path).strip("/") for path in (Path.home(), Path.cwd()) if " " in str(path)]


def _paths(folders: Iterable[str]) -> re.Pattern[str]:
    """One pattern for everything that looks like a path, in the order that decides what is kept."""
    private, no_route = (_either({*known, *folders} - {""}) for known in (PRIVATE, NO_ROUTE))
    system = _either(SYSTEM)
    return re.compile(
        rf"(?P<kept>{PATH}(?:/{COMPONENT}++(?!/))?"
        rf"|https?://[^\s/\"'<>?]++(?:/(?!(?:{no_route})/)(?:(?!\?){COMPONENT}|:)*+)*+)"
        rf"|(?<![\w./-])/++(?P<bare>{private})(?![\w.+@/~-])"
        rf"|/(?P<root>{private})(?P<rest>(?:/+{COMPONENT}*+)++)"
        rf"|(?P<system>/(?:{system})(?![\w.+@-])(?:/(?!\.\.){COMPONENT}*+)*+)"
        rf"|(?<![\w.])~(?P<home>(?:/+{COMPONENT}++)++/*+)"
        rf"|(?<![A-Za-z])[A-Za-z]:\\{{1,2}}(?=(?i:users|documents|temp|tmp|work|data|home)\b)"
        rf"(?P<windows>(?:{COMPONENT}|\\)++)"
    )


def _shown(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind in ("kept", "system"):
        return found[0]
    if kind == "bare":
        return PATH
    parts = re.split(r"[/\\]+", found[kind].strip("/\\"))
    people = found["root"] in HOMES or (kind == "windows" and parts[0].lower() == "users")
    named = 2 if kind == "windows" else 1
    if not parts[-1] or (people and len(parts) <= named):
        return PATH
    return f"{PATH}/{parts[-1]}"


def _rules(secrets: int, words: int, folders: int) -> list[str]:
    return [
        f"API keys, authorization headers, bearer tokens and passwords, known by name, by shape or by the plan "
        f"({secrets} given): {SECRET}",
        f"every absolute path outside the system's own folders ({', '.join('/' + f for f in SYSTEM)}), that is homes, "
        f"working, temporary, optional and mounted folders: {PATH}/ and the last part of its name",
        f"the machine's host name and network addresses: {HOST}",
        f"the user's name: {USER}",
        f"what the plan adds: {words} texts: {WORD}; {folders} folders: {PATH}",
    ]
