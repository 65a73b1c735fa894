import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from compose import compose_round, sweep
from genreport.errors import PlanError
from genreport.figures import compute
from genreport.plan import level_seed, read_plan
from genreport.plan.model import FIGURES, LATENCIES

GOOD = """\
plan: 1
seed: 7
engines:
  - id: one
    kind: vllm
    model: m
    url: http://127.0.0.1:8101/
    launch: {command: "sh -c 'x y'", env: {THREADS: 1, HOME_DIR: "${HOME}/x"}, cpus: 0}
    ceilings: {flops: {value: 1.008e12, source: data sheet}}
    sampling: {repetition_penalty: 1.05}
  - id: two
    kind: llamacpp
    model: m
    url: http://127.0.0.1:8102
    launch: {command: [sh, -m, x], env: {A: a}}
    sampling: {top_k: 1}
    variants:
      - {id: np1, flags: [-np, 1]}
      - {id: np4, flags: "-np 4", env: {B: b}, sampling: {min_p: 0.1}, kv_bytes_per_element: 1.0625}
tests:
  - {id: sweep, kind: concurrency, input: 64, output: 96, levels: [1, 2, {concurrency: 8, requests: 12}]}
  - {id: lengths, kind: length, engines: [one], concurrency: 4, output: 32, inputs: [128, 256], requests: 16}
  - id: wall
    kind: cliff
    engines: [one]
    concurrency: 16
    shapes: {normal: {input: 64, output: 64}, long: {input: 256, output: 256}}
    flags: [--max-model-len, 512]
hypotheses:
  - {id: penalty, text: slower, figure: output_throughput, test: sweep, engine: one, against_round: old,
     changes_by_more_than: 0.02}
"""  # fmt: skip
ENV = {"HOME": "/somewhere", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def plan(tmp_path):
    def read(text=GOOD, env=ENV, **more):
        file = tmp_path / "plan.yaml"
        file.write_text(text)
        return read_plan(file, env, **more)

    return read


@pytest.fixture
def mistakes(plan):
    def found(text, **more):
        with pytest.raises(PlanError) as caught:
            plan(text, **more)
        return caught.value.mistakes

    return found


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_variants_become_engines_of_their_own(plan):
    one, np1, np4 = plan().engines
    assert [one.id, np1.id, np4.id] == ["one", "two-np1", "two-np4"]
    assert np4.variant_of == "two"
    assert np4.command() == ["sh", "-m", "x", "-np", "4"]
    assert np4.launch.env == {"A": "a", "B": "b"}
    assert np4.sampling == {"top_k": 1, "min_p": 0.1}
    assert (np1.kv_bytes_per_element, np4.kv_bytes_per_element) == (2, 1.0625)


def test_a_kept_base_is_measured_beside_its_variants(plan):
    kept = plan(GOOD.replace("    variants:", "    keep_base: true\n    variants:"))
    assert [engine.id for engine in kept.engines] == ["one", "two", "two-np1", "two-np4"]


def test_the_id_of_a_base_that_is_not_measured_names_its_variants(plan):
    found = plan(GOOD.replace("engines: [one], concurrency: 4", "engines: [two], concurrency: 4"))
    assert [engine.id for engine in found.engines_of(found.tests[1])] == ["two-np1", "two-np4"]


def test_the_first_engine_is_the_baseline_unless_another_is_marked(plan):
    assert plan().baseline.id == "one"
    marked = plan(GOOD.replace("kind: llamacpp", "kind: llamacpp\n    baseline: true"))
    assert marked.baseline.id == "two-np1"


def test_each_engine_starts_once_for_tests_without_flags_and_once_for_each_with(plan):
    found = plan()
    starts = [(group.name, [test.id for test in group.tests]) for group in found.launches()]
    assert starts == [
        ("one", ["sweep", "lengths"]), ("one+wall", ["wall"]), ("two-np1", ["sweep"]), ("two-np4", ["sweep"]),
    ]  # fmt: skip
    group = found.launches()[1]
    assert group.engine.command(group.test) == ["sh", "-c", "x y", "--max-model-len", "512"]


def test_levels_are_named_after_what_varies(plan):
    sweep, lengths, wall = (test.levels() for test in plan().tests)
    assert [(level.name, level.concurrency, level.requests) for level in sweep] == [
        ("c1", 1, 16),
        ("c2", 2, 16),
        ("c8", 8, 12),
    ]
    assert [(level.name, level.shape.input, level.shape.output) for level in lengths] == [
        ("in128", 128, 32),
        ("in256", 256, 32),
    ]
    assert [(level.name, level.shape.input, level.requests) for level in wall] == [
        ("normal", 64, 64),
        ("long", 256, 64),
    ]


def test_variables_are_expanded_only_on_request_and_never_in_the_text(plan):
    found = plan()
    assert found.text == GOOD
    assert found.engines[0].launch.env["HOME_DIR"] == "${HOME}/x"
    assert found.expanded(ENV).engines[0].launch.env["HOME_DIR"] == "/somewhere/x"
    assert found.expanded(ENV).text == GOOD


def test_a_variable_with_spaces_stays_one_word_of_a_command(plan):
    text = GOOD.replace("sh -c 'x y'", "sh -m ${MODEL}")
    found = plan(text, ENV | {"MODEL": "a b"})
    assert found.expanded(ENV | {"MODEL": "a b"}).engines[0].command() == ["sh", "-m", "a b"]


def test_an_unset_variable_is_a_mistake_of_its_line(mistakes):
    text = GOOD.replace("${HOME}", "${NOWHERE}")
    assert mistakes(text) == [
        (line_of(text, "NOWHERE"), "engines[1].launch.env.HOME_DIR: the environment has no variable NOWHERE")
    ]


def test_secrets_are_the_keys_and_the_settings_named_like_keys(plan):
    text = GOOD.replace("THREADS: 1", 'HF_TOKEN: abc, OTHER: "${MY_SECRET}"')
    text = text.replace("    ceilings", "    api_key_env: SOME\n    ceilings")
    env = ENV | {"SOME": "a-long-key", "MY_SECRET": "hush"}
    assert plan(text, env).secrets(env) == ["a-long-key", "abc", "hush"]


def test_a_key_that_is_too_short_to_be_told_from_words_is_refused(plan, mistakes):
    text = GOOD.replace("    ceilings", "    api_key_env: SOME\n    ceilings")
    told = "the key in SOME has 7 characters; one of fewer than 8 can not be told from other words in logs and answers"
    found = mistakes(text, env=ENV | {"SOME": "1234567"})
    assert found == [(line_of(text, "SOME"), f"engines[1].api_key_env: {told}")]
    assert plan(text, ENV | {"SOME": "12345678"}).secrets(ENV | {"SOME": "12345678"}) == ["12345678"]


@pytest.mark.parametrize(("word", "id"), [("two", "two"), ("np4", "two-np4"), ("wee", "sweep"), ("llama", "llamacpp")])
def test_a_text_to_redact_that_is_part_of_an_id_is_a_mistake(plan, mistakes, word, id):
    told = f"redact[2]: {word!r} is part of {id!r}, which the round can not do without; rename one"
    for written in (word, "${WORD}"):
        text = f'{GOOD}redact: [/srv/two, "{written}"]\n'
        assert mistakes(text, env=ENV | {"WORD": word}) == [(line_of(text, "redact"), told)]
    assert plan(f"{GOOD}redact: [/srv/two, zebra]\n").redact == ["/srv/two", "zebra"]


def test_a_request_has_its_longest_time(plan, mistakes):
    assert [test.request_s for test in plan().tests] == [600, 600, 600]
    text = GOOD.replace("kind: cliff", "kind: cliff\n    request_s: 0")
    assert mistakes(text) == [(line_of(text, "request_s"), "tests[3].request_s: must be above 0, not 0")]


def test_ids_and_names_of_a_plan_are_words_that_name_nobody(plan):
    assert {"one", "two", "two-np4", "sweep", "wall", "c8", "in128", "normal", "penalty", "vllm", "m"} <= plan().words()


def test_a_hypothesis_may_be_about_exactly_what_is_computed(tmp_path):
    ledger = compute(compose_round(tmp_path / "round", tests=[sweep(1)], repeats=1)).ledger
    level = "concurrency.vllm-bf16.c1"
    for latency, statistics in LATENCIES.items():
        computed = {id for id in ("mean", "p50", "p90", "p95", "p99") if f"{level}.{latency}.{id}" in ledger}
        assert computed == set(statistics)
    assert [figure for figure in FIGURES if f"{level}.{figure}" not in ledger] == []


def test_ceilings_are_measured_for_engines_started_here_unless_cited(plan):
    one = plan().engines[0]
    assert one.ceiling("bandwidth").measure
    assert (one.ceiling("flops").measure, one.ceiling("flops").value) == (False, 1.008e12)
    running = plan(
        "plan: 1\nengines: [{id: a, kind: openai, model: m, url: 'https://h/api'}]\n"
        "tests: [{id: t, kind: concurrency, input: 1, output: 1, levels: [1]}]\n"
    )
    assert running.engines[0].ceiling("bandwidth") is None
    assert running.engines[0].prompt_form == "text"


@pytest.mark.parametrize("url", ["http://h:8000/v1", "https://h:9/proxy/v1/"])
def test_an_address_that_ends_in_v1_is_told_to_leave_it_out(mistakes, url):
    text = GOOD.replace("http://127.0.0.1:8101", url, 1)
    told = "engines[1].url: ends in /v1; give the server's root, without it"
    assert mistakes(text) == [(line_of(text, url), told)]


def test_a_level_seed_is_stable_and_differs_by_level_and_repeat():
    assert level_seed(7, "sweep", "c4", 1) == level_seed(7, "sweep", "c4", 1) == 936196613
    seeds = {level_seed(7, "sweep", level, repeat) for level in ("c1", "c2") for repeat in (1, 2, 3)}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_every_mistake_is_told_at_once_with_its_line(mistakes):
    text = """\
plan: 1
sed: 1
engines:
  - id: Vllm bf16
    kind: vlm
    url: ftp://x
    launch: {command: [no-such-program], cpus: x-y, redy_s: 3}
    sampling: {n: 2}
  - {id: a, kind: vllm, model: m, url: "http://h", launch: {command: "sh 'x"}, baseline: true}
  - {id: a, kind: vllm, model: m, url: "http://h:1", baseline: true, ceilings: {bandwidth: mesure, flops: {value: 3}}}
tests:
  - {id: t, kind: concurrency, input: -64, output: yes, levels: [1, -2, {concurrency: 4, requests: 2}], engnes: [x]}
  - {id: engine, kind: lenght, engines: [b], concurrency: 4, output: 0, inputs: [128, 256]}
  - {id: t, kind: cliff, concurrency: 16, requests: 4, flags: [x]}
  - {id: l, kind: length, concurrency: 16, output: 1, inputs: [2, 2]}
slos: [{id: chat, figure: tft, below_ms: 0}]
hypotheses:
  - {id: p, text: t, figure: throughput, test: s, engine: c, against_round: old, stays_within: 1}
  - {id: q, text: t, figure: itl.p50, test: t, engine: a, against_round: old, against_engine: a, stays_within: 1}
"""
    assert mistakes(text) == [
        (2, "sed: unknown key 'sed'; did you mean 'seed'?"),
        (4, "engines[1].id: 'Vllm bf16' may hold only a-z, 0-9 and, after the first character, _ + -"),
        (4, "engines[1]: `model` is missing"),
        (5, "engines[1].kind: unknown value 'vlm'; did you mean 'vllm'?"),
        (6, "engines[1].url: 'ftp://x' is not a http:// or https:// address"),
        (6, "engines[1].url: needs a port: the engine is started here and answers on it"),
        (7, "engines[1].launch.command: there is no program no-such-program"),
        (7, "engines[1].launch.cpus: 'x-y' is no list of cores such as 0 or 0-3,8"),
        (7, "engines[1].launch.redy_s: unknown key 'redy_s'; did you mean 'ready_s'?"),
        (8, "engines[1].sampling: n must be 1: one answer a request"),
        (9, "engines[2].launch.command: not a command line: No closing quotation"),
        (9, "engines[2].url: needs a port: the engine is started here and answers on it"),
        (10, "engines[3].baseline: another engine is the baseline already"),
        (10, "engines[3].ceilings.bandwidth: is `measure`, or a mapping with `value` and `source`"),
        (10, "engines[3].ceilings.flops: is `measure`, or a mapping with `value` and the `source` it is cited from"),
        (10, "engines[3].id: two engines have the id 'a'"),
        (12, "tests[1].engnes: unknown key 'engnes'; did you mean 'engines'?"),
        (12, "tests[1].input: must be above 0, not -64"),
        (12, "tests[1].levels[2].concurrency: must be above 0, not -2"),
        (12, "tests[1].levels[3].requests: 2 requests can not keep 4 in flight; at least 4"),
        (12, "tests[1].output: must be a whole number, not True"),
        (13, "tests[2].engines[1]: unknown engine 'b'; known are Vllm bf16, a"),
        (13, "tests[2].id: 'engine' is reserved; choose another id"),
        (13, "tests[2].kind: unknown value 'lenght'; did you mean 'length'?"),
        (13, "tests[2].output: must be above 0, not 0"),
        (14, "tests[3].flags: can not reach a: it has no `launch`"),
        (14, "tests[3].id: two tests have the id 't'"),
        (14, "tests[3].requests: 4 requests can not keep 16 in flight; at least 16"),
        (14, "tests[3]: `shapes` is missing"),
        (15, "tests[4].inputs: must rise, each value once, not 2, 2"),
        (16, "slos[1].below_ms: must be above 0, not 0"),
        (16, "slos[1].figure: unknown value 'tft'; did you mean 'ttft'?"),
        (18, "hypotheses[1].engine: unknown engine 'c'; known are Vllm bf16, a"),
        (18, "hypotheses[1].figure: 'throughput' is no figure of a level; known are output_throughput, request_throughput, "
             "goodput, mean_in_flight, stall_share, mbu, mfu, ttft.mean, ttft.p50, ttft.p90, ttft.p95, ttft.p99, tpot.mean, "
             "tpot.p50, tpot.p90, tpot.p95, tpot.p99, itl.p50, itl.p90, itl.p95, itl.p99, e2el.p50, e2el.p90, e2el.p95, e2el.p99"),
        (18, "hypotheses[1].test: unknown test 's'; known are engine, l, t"),
        (19, "hypotheses[2]: needs exactly one of against_round, against_engine"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sampling", "told"),
    [
        ("{stream: true}", "the runner itself sets stream; leave it out"),
        ("{max_tokens: 5, seed: 1, prompt: x}", "the runner itself sets max_tokens, prompt, seed; leave it out"),
        ("{n: 2}", "n must be 1: one answer a request"),
    ],
)
def test_sampling_can_not_change_what_the_runner_sets(mistakes, sampling, told):
    text = GOOD.replace("{repetition_penalty: 1.05}", sampling)
    assert mistakes(text) == [(line_of(text, "sampling"), f"engines[1].sampling: {told}")]


def test_a_key_given_twice_is_named_with_both_lines(mistakes):
    text = GOOD.replace("    kind: vllm\n", "    kind: vllm\n    kind: openai\n")
    assert mistakes(text) == [(6, "key 'kind' was already given in line 5")]


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("plan: 1\nengines: [\n", 3, "not YAML"),
        ("plan: 1\n\tx: 1\n", 2, "not YAML"),
        ("", 1, "a plan is a mapping"),
        ("- 1\n", 1, "a plan is a mapping"),
        ("plan: &a [*a]\n", 1, "aliases make this plan endless"),
        ("plan: !!python/object:os.system x\n", 1, "not YAML"),
        ("plan: 1\n? [a]\n: 1\n", 2, "not YAML: found unhashable key"),
        ("plan: \x00\n", 1, "not YAML"),
    ],
)
def test_what_is_no_yaml_mapping_is_refused_with_its_line(mistakes, text, line, told):
    found = mistakes(text)
    assert found[0][0] == line
    assert told in found[0][1]


def test_a_plan_that_can_not_be_read_is_a_plan_error(tmp_path):
    with pytest.raises(PlanError, match="No such file"):
        read_plan(tmp_path / "none.yaml")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"plan: 1\nx: \xff\n")
    with pytest.raises(PlanError, match=r"latin\.yaml:2: is not UTF-8"):
        read_plan(latin)


def test_model_files_and_programs_are_looked_for_only_on_this_machine(plan, mistakes):
    text = GOOD.replace("    ceilings", "    model_files: nowhere/model.gguf\n    api_key_env: UNSET\n    ceilings")
    lines = [line_of(text, "nowhere"), line_of(text, "UNSET")]
    assert mistakes(text) == [
        (lines[0], "engines[1].model_files: nowhere/model.gguf does not exist"),
        (lines[1], "engines[1].api_key_env: the environment has no variable UNSET"),
    ]
    assert plan(text, on_this_machine=False).engines[0].model_files == ["nowhere/model.gguf"]


def test_flags_need_a_server_that_is_started_here(mistakes):
    text = GOOD.replace("    launch: {command: [sh, -m, x], env: {A: a}}\n", "")
    found = mistakes(text)
    variants = [line_of(text, "id: np1"), line_of(text, "id: np4")]
    assert found == [
        (variants[0], "engines[2].variants[1]: changes flags or env, but the engine has no `launch`"),
        (variants[1], "engines[2].variants[2]: changes flags or env, but the engine has no `launch`"),
    ]


def test_a_hypothesis_names_an_engine_that_is_measured(plan, mistakes):
    assert plan().hypotheses[0].claim == ("changes_by_more_than", 0.02)
    text = GOOD.replace("engine: one, against", "engine: two, against")
    told = "hypotheses[1].engine: unknown engine 'two'; did you mean 'two-np4'?"
    assert mistakes(text) == [(line_of(text, "id: penalty"), told)]


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.dates()
    | st.text(max_size=5)
    | st.just("${HOME}"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2),
    max_leaves=4,
)


def places(value, loc=()):
    yield loc
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*loc, key))


def mistakes_of(file):
    try:
        read_plan(file, ENV).expanded(ENV).launches()
    except PlanError as error:
        return error.mistakes
    return []


@given(st.data())
def test_a_plan_with_anything_anywhere_is_read_or_refused_with_lines_that_exist(tmp_path_factory, data):
    raw = yaml.safe_load(GOOD)
    *way, last = data.draw(st.sampled_from([loc for loc in places(raw) if loc]))
    part = raw
    for key in way:
        part = part[key]
    part[last] = data.draw(junk)
    file = tmp_path_factory.getbasetemp() / "junk.yaml"
    file.write_text(yaml.safe_dump(raw, allow_unicode=True))
    lines = len(file.read_text().splitlines())
    for line, message in mistakes_of(file):
        assert 1 <= line <= lines
        assert message
