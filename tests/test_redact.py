import re
import socket
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport import redact
from genreport.redact import Redactor


@pytest.fixture(scope="module", autouse=True)
def known_machine():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redact.platform, "node", lambda: "zephyr.lan")
        patch.setattr(redact.getpass, "getuser", lambda: "alice")
        patch.setattr(redact.Path, "home", lambda: redact.Path("/home/vllm"))
        patch.setattr(redact.psutil, "net_if_addrs", dict)
        yield


@pytest.fixture(scope="module")
def redactor(known_machine):
    return Redactor(["/vault/fast", "Project Zebra"], ["correct horse", "x"])


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/home/bob/models/m.gguf:12", "<path>/m.gguf:12"),
        ("/home/bob", "<path>"),
        ("/root/", "<path>"),
        ("PATH=/usr/bin:/home/u/bin:/mnt/x", "PATH=/usr/bin:<path>/bin:<path>/x"),
        ("['/srv/x','/tmp/a']", "['<path>/x','<path>/a']"),
        ("file:///home/u/.cache/hub", "file://<path>/hub"),
        ("ipc:///tmp/abc-def", "ipc://<path>/abc-def"),
        ("\\n/home/u/z", "\\n<path>/z"),
        ("\x1b[0m/mnt/a/b\x1b[0m", "\x1b[0m<path>/b\x1b[0m"),
        ("-I/home/u/include", "-I<path>/include"),
        ("~/x/y", "<path>/y"),
        (r"C:\Users\bob\x.txt", "<path>/x.txt"),
        (r"C:\\Users\\bob", "<path>"),
        ("/usr/../home/u/x", "/usr/..<path>/x"),
        ("/var/tmp/a/b", "<path>/b"),
        ("/mnt/disk/a, /media/b/c; /srv/d", "<path>/a, <path>/c; <path>/d"),
        ("/vault/fast/a/b", "<path>/b"),
        ("<path>/home/u", "<path><path>"),
        ("https://docs/refleaks.html/opt/lib/x.py: warning", "https://docs/refleaks.html<path>/x.py: warning"),
        ("http://h/a?file=/home/u/x", "http://h/a?file=<path>/x"),
    ],
)
def test_paths_outside_the_systems_folders_keep_only_their_last_part(redactor, given, shown):
    assert redactor.text(given) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8101/v1/completions",
        "https://host.example/data/projects/page",
        "Route: /version, Methods: GET",
        "GET /v1/models HTTP/1.1",
        "POST /tokenize /slots /metrics /health",
        "Explicitly set (1.0/14.96) GiB for KV cache",
        "2026/11/29 19:47:01",
        "/usr/lib/python3/dist-packages/x.py /etc/hosts /proc/self/status /sys/devices /dev/shm/x",
        "~740 tok/s, ~740/s, I/O, and/or",
        "facebook/opt-125m /opt-125m",
        "print_info: BOS token             = 1 '<|im_start|>'",
        "max_tokens=5 prompt_tokens: 12 api_key=None 'api_key': None",
        "EOS_TOKEN: 2",
        "alices zephyrs",
    ],
)
def test_what_names_nobody_stays(redactor, text):
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Authorization: Bearer abcdef", "Authorization: Bearer <secret>"),
        ('{"authorization": "Basic YWJj"}', '{"authorization": "Basic <secret>"}'),
        ("sent bearer abc.def-123", "sent bearer <secret>"),
        ("--api-key abcd", "--api-key <secret>"),
        ("--api-key=abcd", "--api-key=<secret>"),
        ("['--api-key', 'abcd', '--port', '1']", "['--api-key', '<secret>', '--port', '1']"),
        ("'api_key': ['zzz']", "'api_key': ['<secret>']"),
        ("api_key=none-of-your-business", "api_key=<secret>"),
        ("HF_TOKEN=abc", "HF_TOKEN=<secret>"),
        ("key sk-abcdefghijklmnop1234", "key <secret>"),
        ("password: 123456", "password: <secret>"),
        ("the correct horse of Project Zebra", "the <secret> of <redacted>"),
        ("alice@zephyr zephyr.lan x", "<user>@<host> <host> x"),
    ],
)
def test_secrets_and_names_are_replaced(redactor, given, shown):
    assert redactor.text(given) == shown


def test_values_are_redacted_through_keys_lists_and_argument_pairs(redactor):
    given = {
        "command": ["serve", "--api-key", "k", "-m", "/home/ada/z/m.gguf"],
        "api_key": "k",
        "env": {"HF_TOKEN": "z", "CACHE": "/srv/a"},
        "/srv/a/k": 1,
        "prompt_tokens": 5,
        "none": None,
    }
    assert redactor.value(given) == {
        "command": ["serve", "--api-key", "<secret>", "-m", "<path>/m.gguf"],
        "api_key": "<secret>",
        "env": {"HF_TOKEN": "<secret>", "CACHE": "<path>/a"},
        "<path>/k": 1,
        "prompt_tokens": 5,
        "none": None,
    }


@pytest.fixture
def odd_names(monkeypatch):
    monkeypatch.setattr(redact.platform, "node", lambda: "api")
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "vllm")
    monkeypatch.setattr(redact.Path, "home", lambda: redact.Path("/home/smollm2"))
    return Redactor(known=["smollm2", "ada"])


@pytest.mark.parametrize(
    "data",
    [
        'vllm:num_requests_running{engine="0",model_name="smollm2"} 1.0',
        "# TYPE vllm:num_requests_running gauge",
        "    kind: vllm\n    id: smollm2",
        "INFO [api_server.py:12] vllm API server, api ready; smollm2 served",
        "GET /api/tags vllm==0.27.1 vllm-bf16 @vllm vllm@0.27.1",
        {"kind": "vllm", "owned_by": "vllm", "id": "smollm2", "engines": ["vllm", "api"], "vllm": {"api": 1}},
    ],
)
def test_a_user_or_a_host_named_like_an_engine_destroys_no_data(odd_names, data):
    assert odd_names.value(data) == data


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("vllm@api ~ $ smollm2@api.lan", "<user>@<host> ~ $ <user>@<host>.lan"),
        ("USER=vllm LOGNAME='smollm2' uid=1000(vllm)", "USER=<user> LOGNAME='<user>' uid=1000(<user>)"),
        ("host=api, 'hostname': 'api', --host api", "host=<host>, 'hostname': '<host>', --host <host>"),
        ("http://api:8101/v1 listening on api:8101", "http://<host>:8101/v1 listening on <host>:8101"),
        ("/home/vllm/x and /home/vllm", "<path>/x and <path>"),
        ({"user": "vllm", "hostname": "api", "name": "vllm"}, {"user": "<user>", "hostname": "<host>", "name": "vllm"}),
    ],
)
def test_where_only_a_name_can_stand_it_is_replaced_whatever_it_is(odd_names, given, shown):
    assert odd_names.value(given) == shown
    assert odd_names.value(shown) == shown


def test_a_user_named_like_an_id_of_the_plan_leaves_the_id(monkeypatch):
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "ada")
    assert Redactor(known=["ada"]).text("engine ada, user: ada") == "engine ada, user: <user>"
    assert Redactor().text("engine ada, user: ada") == "engine <user>, user: <user>"


def test_addresses_of_this_machine_are_hosts_and_those_of_every_machine_are_not(monkeypatch):
    def at(family, address):
        return SimpleNamespace(family=family, address=address)

    found = [
        at(socket.AF_INET, "127.0.0.1"), at(socket.AF_INET, "192.0.2.7"), at(socket.AF_INET6, "2001:db8::7%eth0"),
        at(socket.AF_INET6, "fe80::7%eth0"), at(-1, "aa:bb:cc:dd:ee:ff"),
    ]  # fmt: skip
    monkeypatch.setattr(redact.psutil, "net_if_addrs", lambda: {"eth0": found})
    assert Redactor().text("127.0.0.1 192.0.2.7:80 2001:db8::7 fe80::7") == "127.0.0.1 <host>:80 <host> fe80::7"


def test_names_that_any_machine_has_are_kept(monkeypatch):
    monkeypatch.setattr(redact.platform, "node", lambda: "localhost")
    monkeypatch.setattr(redact.getpass, "getuser", lambda: "root")
    monkeypatch.setattr(redact.Path, "home", lambda: redact.Path("/root"))
    assert Redactor().text("root logged in on localhost") == "root logged in on localhost"


def test_a_home_with_a_space_is_one_folder(monkeypatch):
    monkeypatch.setattr(redact.Path, "home", lambda: redact.Path("/home/Mary Ann"))
    assert Redactor().text("/home/Mary Ann/models/m.gguf") == "<path>/m.gguf"


def test_the_rules_say_in_words_what_is_replaced(redactor):
    rules = " ".join(redactor.rules)
    assert all(marker in rules for marker in ("<path>", "<secret>", "<host>", "<user>", "<redacted>"))
    assert "correct horse" not in rules
    assert "alice" not in rules
    assert redactor.value(redactor.rules) == redactor.rules


FRAGMENTS = [
    "/",
    "//",
    "/home",
    "/home/",
    "/root",
    "/root/",
    "/mnt",
    "/mnt/",
    "/tmp/a",
    "/usr",
    "/usr/",
    "..",
    ".",
    "~",
    "~/",
    ":",
    ",",
    "'",
    '"',
    "\\",
    "\\n",
    "=",
    "?",
    "&",
    "<",
    ">",
    "<path>",
    "<secret>",
    "<host>",
    "http://",
    "https://h",
    "http://h:1/v1",
    "file://",
    "C:\\Users\\",
    "alice",
    "vllm",
    "vllm:",
    "user=",
    "host: ",
    "zephyr",
    "zephyr.lan",
    "Authorization:",
    "Bearer",
    "bearer",
    "--api-key",
    "api_key",
    "HF_TOKEN",
    "[",
    "]",
    "{",
    "}",
    "a",
    "b1",
    "main.py",
    "None",
    "correct",
    "horse",
    "Project",
    "Zebra",
    "sk-abcdefghijklmnop",
    "/vault/fast",
    "/v1/",
    "-",
    "@",
    "1.0/2",
]
hostile = st.lists(st.sampled_from([*FRAGMENTS, " ", "\n", "\x1b[0m"]) | st.text(max_size=4), max_size=14).map("".join)


@given(hostile)
def test_redacting_twice_changes_nothing(redactor, text):
    once = redactor.text(text)
    assert redactor.text(once) == once


@given(hostile, st.sampled_from(["/home", "/root", "/mnt"]), st.text("abcü.-_/", min_size=1), hostile)
def test_no_private_path_survives_anywhere_but_as_a_host_or_in_a_system_folder(redactor, before, folder, rest, after):
    shown = redactor.text(f"{before}{folder}/{rest}{after}")
    kept = re.sub(r"""https?://(?:home|root|mnt)/|/usr[^\s"'<>:]*""", "", shown)
    assert not re.search(r"/(home|root|mnt)/", kept)


@pytest.mark.parametrize(
    "text",
    ["/" * 10**6, "/home" * 10**5, "http://h" + "/a" * 10**5, "/usr/" * 10**5, "A_" * 10**5, "authorization" + " " * 10**6,
     "/.." * 10**5, "~/" * 10**5, "--api-key" * 10**5, "eyJ" + "a" * 10**6, "C:\\users" * 10**5],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_megabytes_in_a_line_are_redacted_in_linear_time(redactor, text):
    once = redactor.text(text)
    assert redactor.text(once) == once


@pytest.mark.parametrize(
    ("torn", "shown"),
    [
        ("a: hush-hu", "a: <secret>"),
        ("a: hush-hush-471", "a: <secret>"),
        ("a: hush", "a: hush"),
        ("a: hush-hu b", "a: hush-hu b"),
    ],
)
def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_one_that_was_cut_off(torn, shown):
    redactor = Redactor(secrets=["hush-hush-4711"])
    assert redactor.text(torn) == redactor.text(shown) == shown


def test_a_key_that_begins_like_a_word_of_engines_takes_no_word_away():
    assert Redactor(secrets=["llama-key"]).text("a llama") == "a llama"
