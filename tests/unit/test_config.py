"""dcastle.toml: a right one becomes a Project, a wrong one is told every fault at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import InputOptions, Parameters, Project, parse_project
from core.errors import ConfigurationError, Fault
from core.schema import Kind, Policy, Role

DATA = Path(os.environ.get("DCASTLE_DATA", Path(__file__).parents[3] / "shared" / "data"))
ADULT = DATA / "adult"

FILES = {
    "sex.csv": "f;*\nm;*\n",
    "illness.csv": "flu;lung;*\nasthma;lung;*\nulcer;gut;*\n",
    "broken.csv": "a;A;*\nb;A;Any\n",
}

PRIVACY = "[privacy]\nk = 5\ndelay_tuples = 100\n"
AGE = (
    '[[attribute]]\nname = "age"\nrole = "quasi-identifier"\nkind = "numeric"\ndomain = [0, 120]\n'
)
SEX = (
    '[[attribute]]\nname = "sex"\nrole = "quasi-identifier"\nkind = "categorical"\n'
    'hierarchy = "sex.csv"\n'
)
ILLNESS = '[[attribute]]\nname = "illness"\nrole = "sensitive"\nhierarchy = "illness.csv"\n'
MINIMAL = PRIVACY + AGE


def read_file(name: str) -> str:
    if name == "latin1.csv":
        return b"M\xfcller;*".decode()
    if name not in FILES:
        raise FileNotFoundError(2, "No such file or directory", name)
    return FILES[name]


def parse(text: str, overrides: Mapping[str, object] | None = None) -> Project:
    return parse_project(text, file="dcastle.toml", read_file=read_file, overrides=overrides)


def faults_of(text: str, overrides: Mapping[str, object] | None = None) -> tuple[Fault, ...]:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, overrides)
    return caught.value.faults


def only_fault(text: str, overrides: Mapping[str, object] | None = None) -> str:
    faults = faults_of(text, overrides)
    assert len(faults) == 1, "\n".join(map(str, faults))
    return str(faults[0])


def test_a_minimal_file_gets_the_defaults() -> None:
    project = parse(MINIMAL)
    assert project.parameters == Parameters(
        k=5,
        l=1,
        delay_tuples=100,
        delay_seconds=None,
        diversity="distinct",
        beta=50,
        mu=100,
        reuse_max=4096,
        split="cut",
        order="released",
    )
    assert project.input == InputOptions(delimiter=None, missing=("",))
    (age,) = project.schema.attributes
    assert (age.name, age.role, age.kind) == ("age", Role.QUASI_IDENTIFIER, Kind.NUMERIC)
    assert (age.domain, age.hierarchy, age.policy) == ((0.0, 120.0), None, Policy.REJECT)
    assert project.schema.person is None


def test_every_key_is_read() -> None:
    project = parse(
        '[privacy]\nk = 5\nl = 2\ndelay_tuples = 9\ndelay_seconds = 60\ndiversity = "distinct"\n'
        '[clustering]\nbeta = 7\nmu = 8\nreuse_max = 0\nsplit = "castle"\n'
        '[output]\norder = "input"\n[exchange]\nprotocol = "paper"\nrelay = "host:1"\n'
        '[person]\ncolumn = "pid"\n[input]\ndelimiter = ";"\nmissing = ["", "?"]\n'
        f'{AGE}policy = "clamp"\n{SEX}{ILLNESS}[[attribute]]\nname = "pid"\nrole = "identifier"\n'
    )
    assert project.parameters == Parameters(
        k=5,
        l=2,
        delay_tuples=9,
        delay_seconds=60.0,
        beta=7,
        mu=8,
        reuse_max=0,
        split="castle",
        order="input",
    )
    assert project.input == InputOptions(delimiter=";", missing=("", "?"))
    assert project.schema.person == "pid"
    age, sex, illness, pid = project.schema.attributes
    assert age.policy is Policy.CLAMP
    assert sex.hierarchy is not None
    assert sex.hierarchy.leaves == ("f", "m")
    assert illness.kind is Kind.CATEGORICAL
    assert pid.role is Role.IDENTIFIER


def test_values_alone_make_a_flat_hierarchy_of_their_text() -> None:
    text = 'name = "a"\nrole = "quasi-identifier"\nkind = "categorical"\nvalues = ["x", 2, 1.5]\n'
    (attribute,) = parse(f"{PRIVACY}[[attribute]]\n{text}").schema.attributes
    assert attribute.hierarchy is not None
    assert attribute.hierarchy.names == ("x", "2", "1.5", "*")


def test_a_hierarchy_may_be_a_table_inline_or_below() -> None:
    head = '[[attribute]]\nname = "a"\nrole = "quasi-identifier"\nkind = "categorical"\n'
    inline = parse(f'{PRIVACY}{head}hierarchy = {{ Any = {{ X = ["x"], y = [] }} }}\n')
    below = parse(f'{PRIVACY}{head}[attribute.hierarchy.Any]\nX = ["x"]\ny = []\n')
    assert inline.schema.fingerprint == below.schema.fingerprint
    assert inline.schema.attributes[0].hierarchy is not None
    assert inline.schema.attributes[0].hierarchy.names == ("x", "y", "X", "Any")


def test_the_fingerprint_does_not_depend_on_the_layout_of_the_file() -> None:
    compact = (
        "privacy = { delay_tuples = 100, k = 5 }\nattribute = [{ domain = [0.0, 120.0], "
        'kind = "numeric", role = "quasi-identifier", name = "age" }]'
    )
    assert parse(compact) == parse(MINIMAL)
    assert parse(compact).schema.fingerprint == parse(MINIMAL).schema.fingerprint


def test_a_byte_order_mark_and_windows_line_ends_are_fine() -> None:
    assert parse("\ufeff" + MINIMAL.replace("\n", "\r\n")) == parse(MINIMAL)


def test_free_sensitive_values_and_numeric_ones_need_no_hierarchy() -> None:
    free = '[[attribute]]\nname = "s"\nrole = "sensitive"\n'
    for extra in ("", 'kind = "numeric"\n', 'kind = "numeric"\ndomain = [0, 9]\n'):
        assert parse(f"{PRIVACY}l = 3\n{AGE}{free}{extra}").schema.sensitive is not None


def test_an_override_replaces_what_the_file_says_and_none_does_not() -> None:
    project = parse(MINIMAL, {"privacy.k": 9, "privacy.l": None, "clustering.beta": 3})
    assert (project.parameters.k, project.parameters.l, project.parameters.beta) == (9, 1, 3)


def test_an_override_can_stand_in_for_a_missing_key_or_mend_a_wrong_one() -> None:
    assert parse(AGE, {"privacy.k": 5, "privacy.delay_tuples": 100}) == parse(MINIMAL)
    assert parse(MINIMAL.replace("k = 5", 'k = "?"'), {"privacy.k": 5}) == parse(MINIMAL)


def test_the_most_general_value_of_a_domain_may_be_as_wide_as_2_to_the_53() -> None:
    parse(MINIMAL.replace("[0, 120]", "[0, 9007199254740992]"))


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"privacy.k": 1}, "--k is 1, must be at least 2"),
        ({"privacy.k": 200}, "delay_tuples is 100, but --k is 200"),
        ({"privacy.l": 2}, "--l is 2, but no attribute is sensitive"),
        ({"privacy.delay_tuples": 4}, "--delay-tuples is 4, but k is 5"),
        ({"privacy.delay_seconds": "x"}, "--delay-seconds must be a finite number, not a string"),
        ({"clustering.reuse_max": -1}, "--reuse-max is -1, must be at least 0"),
        ({"output.order": "inptu"}, "--order is 'inptu', must be 'released' or 'input' (did you"),
        ({"person.column": "age"}, "--person 'age' is also declared as quasi-identifier"),
        ({"exchange.protocol": "lax"}, "--exchange is 'lax', must be 'strict', 'paper' or 'none'"),
    ],
)
def test_a_fault_of_an_override_names_its_flag(overrides: dict[str, object], text: str) -> None:
    fault = only_fault(MINIMAL, overrides)
    assert text in fault
    assert fault.startswith(("--", "dcastle.toml:3: delay_tuples"))


# Each: what the file is, the line of the fault (None: it has none), and what the fault says.
PRIVACY_FAULTS = [
    ("[privacy]\ndelay_tuples = 100\n" + AGE, 1, "k is missing from [privacy]"),
    ("[privacy]\nk = 5\n" + AGE, 1, "delay_tuples is missing from [privacy]"),
    (MINIMAL.replace("k = 5", "k = true"), 2, "k must be a whole number, not a boolean"),
    (MINIMAL.replace("k = 5", "k = 5.0"), 2, "k must be a whole number, not 5.0"),
    (MINIMAL.replace("k = 5", "k = [5]"), 2, "k must be a whole number, not an array"),
    (MINIMAL.replace("k = 5", "k = 1"), 2, "k is 1, must be at least 2"),
    (
        MINIMAL.replace("k = 5", "k = 1000001").replace("100\n", "2000000\n"),
        2,
        "k is 1000001, must be at most 1000000",
    ),
    (PRIVACY + "l = 0\n" + AGE, 4, "l is 0, must be at least 1"),
    (PRIVACY + "l = 6\n" + AGE + ILLNESS.split("hier")[0], 4, "l is 6, but k is 5"),
    (PRIVACY + "l = 2\n" + AGE, 4, "l is 2, but no attribute is sensitive"),
    (PRIVACY + "l = 4\n" + AGE + ILLNESS, 4, "l is 4, but 'illness' has 3 values"),
    (MINIMAL.replace("= 100", "= 4"), 3, "delay_tuples is 4, but k is 5"),
    (MINIMAL.replace("= 100", "= 0"), 3, "delay_tuples is 0, must be at least 1"),
    (MINIMAL.replace("= 100", "= 50000001"), 3, "must be at most 50000000"),
    (PRIVACY + "delay_seconds = 0\n" + AGE, 4, "delay_seconds is 0, must be more than 0"),
    (PRIVACY + "delay_seconds = nan\n" + AGE, 4, "delay_seconds must be a finite number, not nan"),
    (PRIVACY + 'diversity = "entropy"\n' + AGE, 4, "diversity is 'entropy', must be 'distinct'"),
    (PRIVACY + "dely_seconds = 1\n" + AGE, 4, "did you mean 'delay_seconds'?"),
    (PRIVACY + "beta = 1\n" + AGE, 4, "unknown key 'beta' (it belongs under [clustering])"),
    ("k = 4\n" + MINIMAL, 1, "unknown key 'k' (it belongs under [privacy])"),
]

TABLE_FAULTS = [
    (MINIMAL + "[clustring]\nbeta = 1\n", 9, "unknown table 'clustring' (did you mean 'clustering"),
    (MINIMAL + "[zzz]\n", 9, "unknown table 'zzz' (known are privacy, clustering, output"),
    (MINIMAL + "[clustering]\nbeta = 0\n", 10, "beta is 0, must be at least 1"),
    (MINIMAL + "[clustering]\nbeta = 4097\n", 10, "beta is 4097, must be at most 4096"),
    (MINIMAL + "[clustering]\nmu = 0\n", 10, "mu is 0, must be at least 1"),
    (MINIMAL + "[clustering]\nmu = 1000001\n", 10, "mu is 1000001, must be at most 1000000"),
    (MINIMAL + "[clustering]\nreuse_max = -1\n", 10, "reuse_max is -1, must be at least 0"),
    (MINIMAL + "[clustering]\nreuse_max = 1048577\n", 10, "must be at most 1048576"),
    (MINIMAL + '[clustering]\nsplit = "cat"\n', 10, "split is 'cat', must be 'cut' or 'castle'"),
    (MINIMAL + "[output]\norder = 1\n", 10, "order must be a string, not 1"),
    (MINIMAL + '[output]\norder = "relesed"\n', 10, "did you mean 'released'?"),
    (MINIMAL + '[exchange]\nprotocol = "Strict"\n', 10, "did you mean 'strict'?"),
    (MINIMAL + "[exchange]\nrelay = 5\n", 10, "relay must be a string, not 5"),
    (MINIMAL + "[guard]\nepsilon = 1\n", 9, "[guard] is not available in this version"),
    (MINIMAL + '[person]\ncolumn = "age"\n', 10, "also declared as quasi-identifier"),
    (MINIMAL + '[person]\ncolumn = ""\n', 10, "column is empty"),
    (MINIMAL + '[person]\ncolum = "pid"\n', 9, "column is missing from [person]"),
    (MINIMAL + '[input]\ndelimiter = ";;"\n', 10, "must be a single ASCII character, not ';;'"),
    (MINIMAL + '[input]\ndelimiter = "\u00a6"\n', 10, "delimiter must be a single ASCII character"),
    (MINIMAL + "[input]\ndelimiter = '\"'\n", 10, "not a quote or a line end"),
    (MINIMAL + '[input]\nmissing = "?"\n', 10, "missing must be an array of strings, not a string"),
    (MINIMAL + "[input]\nmissing = [1]\n", 10, "missing must be an array of strings"),
    ("input = 5\n" + MINIMAL, 1, "input must be a table, not 5 (write [input]"),
    (PRIVACY + "[attribute]\nname = 1\n", 4, "attribute must be an array of tables, not a table"),
]


def categorical(*lines: str) -> str:
    """MINIMAL with one more quasi-identifier, of which `lines` start on line 13."""
    head = '[[attribute]]\nname = "a"\nrole = "quasi-identifier"\nkind = "categorical"\n'
    return MINIMAL + head + "\n".join(lines) + "\n"


def second(*lines: str) -> str:
    """MINIMAL with one more attribute 'a', of which `lines` start on line 11."""
    return MINIMAL + '[[attribute]]\nname = "a"\n' + "\n".join(lines) + "\n"


ATTRIBUTE_FAULTS = [
    (PRIVACY, None, "no attribute is a quasi-identifier"),
    (PRIVACY + ILLNESS, None, "no attribute is a quasi-identifier"),
    (MINIMAL + '[[attribute]]\nrole = "identifier"\n', 9, "name is missing"),
    (MINIMAL + '[[attribute]]\nname = ""\nrole = "identifier"\n', 10, "name is empty"),
    (second(), 9, "attribute 'a': role is missing"),
    (second('role = "quasi-identifer"'), 11, "did you mean 'quasi-identifier'?"),
    (second('role = "qi"'), 11, "role is 'qi', must be 'quasi-identifier', 'sensitive', 'insens"),
    (second('role = "identifier"', 'kind = "number"'), 12, "kind is 'number', must be 'numeric'"),
    (second('role = "identifier"', 'polic = "x"'), 12, "did you mean 'policy'?"),
    (second('role = "identifier"', "column = 1"), 12, "it belongs under [person]"),
    (second('role = "quasi-identifier"', "domain = [0, 1]"), 9, "kind is missing"),
    (MINIMAL + AGE, 10, "attribute 'age': declared twice, first on line 5"),
    (
        MINIMAL + ILLNESS + ILLNESS.replace("illness", "drug", 1),
        15,
        "attribute 'drug': a second sensitive attribute, after 'illness' (diversity is counted",
    ),
    (
        second('role = "quasi-identifier"', 'kind = "numeric"'),
        9,
        "a numeric quasi-identifier needs a domain",
    ),
    (categorical(), 9, "a categorical quasi-identifier needs a hierarchy or values"),
    (categorical('values = ["x"]', "domain = [0, 1]"), 14, "domain does not go with kind 'cat"),
    (second('role = "insensitive"', "domain = [0, 1]"), 12, 'or set kind = "numeric"'),
    (MINIMAL + 'hierarchy = "sex.csv"\n', 9, "hierarchy does not go with kind 'numeric'"),
    (MINIMAL + "values = [1]\n", 9, "values does not go with kind 'numeric'"),
    (categorical('values = ["x"]', 'policy = "clamp"'), 14, "'clamp' does not go with kind 'categ"),
    (MINIMAL + 'policy = "ignore"\n', 9, "policy is 'ignore', must be 'reject', 'clamp' or 'sup"),
    (second('role = "sensitive"', 'policy = "suppress"'), 12, "does not go with role 'sensitive'"),
    (second('role = "insensitive"', 'policy = "clamp"'), 12, "does not go with role 'insensitive'"),
    (MINIMAL.replace('"age"', '"class_id"'), 5, "the name 'class_id' is taken"),
]

DOMAIN_FAULTS = [
    (MINIMAL.replace("[0, 120]", domain), 8, message)
    for domain, message in [
        ("[120, 0]", "domain starts at 120, which is not below its end 0"),
        ("[5, 5]", "domain starts at 5, which is not below its end 5"),
        ("[0]", "domain must be two finite numbers"),
        ("[0, 1, 2]", "domain must be two finite numbers"),
        ("[0, inf]", "domain must be two finite numbers"),
        ("[nan, 1]", "domain must be two finite numbers"),
        ("[false, true]", "domain must be two finite numbers"),
        ("[0, 1" + "0" * 400 + "]", "domain must be two finite numbers"),
        ('["0", "1"]', "domain must be two finite numbers"),
        ("120", "domain must be two finite numbers"),
        ("[0, 9007199254740994]", "domain is wider than 2**53"),
        ("[-1e308, 1e308]", "domain is wider than 2**53"),
    ]
]

HIERARCHY_FAULTS = [
    (categorical('hierarchy = "nix.csv"'), 13, "cannot read hierarchy 'nix.csv': No such file or"),
    (categorical('hierarchy = "latin1.csv"'), 13, "cannot read hierarchy 'latin1.csv': 'utf-8'"),
    (categorical("hierarchy = 5"), 13, "hierarchy must be a file name or a nested table, not 5"),
    (categorical("hierarchy = { A = [], B = [] }"), 13, "two roots: 'A' and 'B'"),
    (categorical("[attribute.hierarchy]", "A = [true]"), 13, "True under 'A' is no value"),
    (categorical("values = []"), 13, "values is empty"),
    (categorical('values = ["x", ""]'), 13, "one of the values is empty"),
    (categorical('values = ["x", "*"]'), 13, "'*' cannot be a value"),
    (categorical('values = ["x", "y", "x", "y"]'), 13, "values repeat: 'x', 'y'"),
    (categorical('values = "x"'), 13, "values must be an array of strings, not a string"),
    (categorical("values = [true]"), 13, "values must be an array of strings"),
    (
        categorical('hierarchy = "sex.csv"', 'values = ["m", "x", "f", "*", 0]'),
        14,
        "not a leaf of the hierarchy: 'x', '*', '0'",
    ),
]

SYNTAX_FAULTS = [
    (MINIMAL + "k = \n", 9, "not valid TOML: Invalid value"),
    ("[privacy]\nk = 1\nk = 2\n", 3, "not valid TOML: Cannot overwrite a value"),
    ('a = """\n\n', 3, "not valid TOML: "),
    ("a = " + "[" * 5000, None, "not valid TOML: nested too deeply"),
]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    PRIVACY_FAULTS
    + TABLE_FAULTS
    + ATTRIBUTE_FAULTS
    + DOMAIN_FAULTS
    + HIERARCHY_FAULTS
    + SYNTAX_FAULTS,
)
def test_a_fault_is_told_with_its_line(text: str, line: int | None, message: str) -> None:
    where = "dcastle.toml:" if line is None else f"dcastle.toml:{line}:"
    told = [str(fault) for fault in faults_of(text)]
    assert any(fault.startswith(where) and message in fault for fault in told), told


@pytest.mark.parametrize(
    "text",
    [
        text
        for text, _, _ in PRIVACY_FAULTS
        + TABLE_FAULTS
        + ATTRIBUTE_FAULTS
        + DOMAIN_FAULTS
        + HIERARCHY_FAULTS
        + SYNTAX_FAULTS
        # A misspelt key is also a missing one.
        if "colum =" not in text
    ],
)
def test_one_mistake_is_one_fault(text: str) -> None:
    only_fault(text)


def test_all_faults_of_a_file_come_at_once_in_order_of_line() -> None:
    text = (
        '[privacy]\nk = 1\nl = 0\ndelay = 5\n[clustering]\nbeta = "many"\n[guard]\n'
        '[[attribute]]\nname = "x"\nrole = "quasi"\n'
        '[[attribute]]\nname = "y"\nrole = "quasi-identifier"\nkind = "categorical"\n'
        'hierarchy = "broken.csv"\n'
    )
    faults = faults_of(text)
    assert [(fault.file, fault.line) for fault in faults] == [
        ("dcastle.toml", 1),
        ("dcastle.toml", 2),
        ("dcastle.toml", 3),
        ("dcastle.toml", 4),
        ("dcastle.toml", 6),
        ("dcastle.toml", 7),
        ("dcastle.toml", 10),
        ("broken.csv", 2),
        ("broken.csv", 2),
    ]


def test_a_fault_of_a_hierarchy_file_names_that_file_and_the_attribute() -> None:
    faults = faults_of(categorical('hierarchy = "broken.csv"'))
    assert all(fault.file == "broken.csv" and fault.attribute == "a" for fault in faults)
    assert any("two roots: '*' (line 1) and 'Any' (line 2)" in fault.message for fault in faults)


def test_a_fault_carries_the_value_that_is_wrong() -> None:
    (fault,) = faults_of(MINIMAL.replace("k = 5", "k = 1"))
    assert fault == Fault(
        message="k is 1, must be at least 2", file="dcastle.toml", line=2, value="1"
    )


def test_64_quasi_identifiers_are_the_most() -> None:
    many = [AGE.replace('"age"', f'"age{n}"') for n in range(65)]
    parse(PRIVACY + "".join(many[:64]))
    assert "65 quasi-identifiers, at most 64" in only_fault(PRIVACY + "".join(many))


def test_a_dropped_column_may_be_called_class_id() -> None:
    parse(MINIMAL + '[[attribute]]\nname = "class_id"\nrole = "identifier"\n')


def test_an_unknown_role_does_not_also_count_as_no_quasi_identifier() -> None:
    text = MINIMAL.replace('"quasi-identifier"', '"quasi"').replace("k = 5", "k = 5\nl = 2")
    assert "role is 'quasi'" in only_fault(text)


@given(st.text(max_size=80))
def test_any_text_is_either_a_project_or_a_configuration_error(text: str) -> None:
    assert faults_of(text)


toml_values = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.sampled_from(["privacy.k", "privacy.l", "privacy.delay_tuples", "privacy.delay_seconds"])
    | st.sampled_from(["clustering.beta", "clustering.split", "output.order", "exchange.relay"])
    | st.sampled_from(["input.delimiter", "input.missing", "person.column", "what.ever"]),
    toml_values,
)
def test_any_value_for_any_key_is_either_taken_or_a_fault(key: str, value: object) -> None:
    with suppress(ConfigurationError):
        assert parse(MINIMAL, {key: value}).schema.published == ("age", "class_id")


@pytest.mark.skipif(not ADULT.is_dir(), reason=f"no Adult data under {DATA}")
def test_adult_with_its_hierarchies_is_a_project() -> None:
    names = ("workclass", "education", "marital-status", "occupation", "native-country")
    text = "[privacy]\nk = 100\nl = 2\ndelay_tuples = 10_000\n" + AGE
    for name in names:
        text += f'[[attribute]]\nname = "{name}"\nrole = "quasi-identifier"\n'
        text += f'kind = "categorical"\nhierarchy = "hierarchies-tds/adult_tds_{name}.csv"\n'
    text += '[[attribute]]\nname = "income"\nrole = "sensitive"\nvalues = ["<=50K", ">50K"]\n'
    project = parse_project(
        text, file="dcastle.toml", read_file=lambda name: (ADULT / name).read_text()
    )
    leaves = [each.hierarchy and each.hierarchy.leaf_count for each in project.schema.categorical]
    assert leaves == [8, 16, 7, 14, 41]
