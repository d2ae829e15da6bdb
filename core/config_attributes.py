"""The [[attribute]] tables of a dcastle.toml: each read alone, then all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from core.errors import Fault
from core.hierarchy import FLAT_ROOT, Hierarchy, flat, from_arx, from_nested, is_label
from core.schema import CLASS_ID, Attribute, Kind, Policy, Role
from core.toml_lines import line_of
from core.toml_table import Table, finite

ReadFile = Callable[[str], str]

ATTRIBUTE_KEYS: Final = ("name", "role", "kind", "domain", "hierarchy", "values", "policy")

QUASI_IDENTIFIERS_MAX: Final = 64
# Within this width every whole number of the domain has a float of its own.
DOMAIN_WIDTH_MAX: Final = 2.0**53


def read_attributes(
    top: Table, homes: Mapping[str, str], read_file: ReadFile
) -> list[Attribute | None]:
    """Read one attribute per [[attribute]]; None stands for one whose role cannot be told."""
    tables = top.tables("attribute")
    if not tables and top.values.get("attribute"):
        return [None]
    named = [_with_name(table) for table in tables]
    for table in named:
        table.refuse_unknown(ATTRIBUTE_KEYS, homes)
    attributes = [_read_attribute(table, read_file) for table in named]
    _check_names(named)
    _check_roles(top, named, attributes)
    return attributes


def _with_name(table: Table) -> Table:
    """Return the same table, its faults under the attribute's name."""
    table.require("name")
    name = table.text("name") or ""
    return Table(document=table.document, path=table.path, values=table.values, attribute=name)


def _read_attribute(table: Table, read_file: ReadFile) -> Attribute | None:
    table.require("role")
    role = table.choice("role", None, tuple(Role))
    if role is Role.QUASI_IDENTIFIER:
        table.require("kind")
    # Only a quasi-identifier is generalised; for the others the kind may be left out.
    default = Kind.CATEGORICAL if role not in (None, Role.QUASI_IDENTIFIER) else None
    kind = table.choice("kind", default, tuple(Kind))
    policy = table.choice("policy", Policy.REJECT, tuple(Policy))
    _check_kind(table, role, kind)
    _check_policy(table, role, kind, policy)
    domain = None if kind is Kind.CATEGORICAL else _read_domain(table)
    hierarchy = None if kind is Kind.NUMERIC else _read_hierarchy(table, read_file)
    if role is None:
        return None
    return Attribute(
        name=table.attribute,
        role=role,
        kind=kind or Kind.CATEGORICAL,
        domain=domain,
        hierarchy=hierarchy,
        policy=policy,
    )


def _check_kind(table: Table, role: Role | None, kind: Kind | None) -> None:
    """Numeric needs a domain, categorical a hierarchy, and neither may have the other's."""
    trees = [key for key in ("hierarchy", "values") if key in table.values]
    if kind is Kind.NUMERIC:
        for key in trees:
            hint = "give a domain, or make the attribute categorical"
            table.fault(f"{key} does not go with kind 'numeric'", key=key, hint=hint)
        if role is Role.QUASI_IDENTIFIER and "domain" not in table.values:
            hint = "such as domain = [0, 120]; use bounds that are public, not those of the data"
            table.fault("a numeric quasi-identifier needs a domain", hint=hint)
    if kind is Kind.CATEGORICAL:
        if "domain" in table.values:
            hint = 'give a hierarchy or values, or set kind = "numeric"'
            table.fault("domain does not go with kind 'categorical'", key="domain", hint=hint)
        if role is Role.QUASI_IDENTIFIER and not trees:
            hint = 'hierarchy = "FILE", an inline table, or values = [...] for a flat one'
            table.fault("a categorical quasi-identifier needs a hierarchy or values", hint=hint)


def _check_policy(table: Table, role: Role | None, kind: Kind | None, policy: Policy) -> None:
    if policy is Policy.REJECT:
        return
    if role in (Role.SENSITIVE, Role.INSENSITIVE):
        message = f"policy '{policy}' does not go with role '{role}'"
        hint = "only quasi-identifiers have a most general value; use 'reject'"
        table.fault(message, key="policy", value=policy, hint=hint)
    elif policy is Policy.CLAMP and kind is Kind.CATEGORICAL:
        message = "policy 'clamp' does not go with kind 'categorical'"
        hint = "only numbers have a nearest value; use 'reject' or 'suppress'"
        table.fault(message, key="policy", value=policy, hint=hint)


def _read_domain(table: Table) -> tuple[float, float] | None:
    value = table.values.get("domain")
    if value is None:
        return None
    ends = [finite(end) for end in value] if isinstance(value, list) else []
    match ends:
        case [float(low), float(high)]:
            pass
        case _:
            hint = "such as domain = [0, 120]"
            table.fault("domain must be two finite numbers", key="domain", value=value, hint=hint)
            return None
    if low >= high:
        message = f"domain starts at {low:g}, which is not below its end {high:g}"
        table.fault(message, key="domain", value=value)
    elif high - low > DOMAIN_WIDTH_MAX:
        table.fault("domain is wider than 2**53", key="domain", value=value)
    return low, high


def _read_hierarchy(table: Table, read_file: ReadFile) -> Hierarchy | None:
    """Build the tree that `hierarchy`, or else `values`, describes."""
    values = _read_values(table)
    description = table.values.get("hierarchy")
    if description is None:
        return flat(values) if values and _is_flat(table, values) else None
    if not isinstance(description, str | Mapping):
        table.wrong_type("hierarchy", "a file name or a nested table")
        return None
    tree, faults = _grow(table, description, read_file)
    table.document.faults.extend(faults)
    if tree is not None:
        _check_complete(table, tree, values)
    return tree


def _grow(
    table: Table, description: str | Mapping[str, object], read_file: ReadFile
) -> tuple[Hierarchy | None, list[Fault]]:
    if isinstance(description, Mapping):
        line = line_of(table.document.lines, (*table.path, "hierarchy"))
        return from_nested(
            description, file=table.document.file, line=line, attribute=table.attribute
        )
    try:
        text = read_file(description)
    except (OSError, ValueError) as error:
        # ValueError: bytes that are not UTF-8, or a name that no file can have.
        reason = getattr(error, "strerror", None) or error
        message = f"cannot read hierarchy '{description}': {reason}"
        hint = "the path is relative to the configuration file"
        table.fault(message, key="hierarchy", value=description, hint=hint)
        return None, []
    return from_arx(text, file=description, attribute=table.attribute)


def _read_values(table: Table) -> list[str]:
    """Read the strings of `values`; numbers stand for their text."""
    values = table.values.get("values")
    if values is None:
        return []
    if not isinstance(values, list) or not all(is_label(value) for value in values):
        table.wrong_type("values", "an array of strings")
        return []
    labels = [str(value) for value in values]
    if not labels:
        table.fault("values is empty", key="values")
    if "" in labels:
        table.fault("one of the values is empty", key="values")
    repeated = [label for label, count in Counter(labels).items() if count > 1]
    if repeated:
        table.fault(f"values repeat: {_quoted(repeated)}", key="values", value=repeated[0])
    return [label for label in dict.fromkeys(labels) if label]


def _is_flat(table: Table, values: Sequence[str]) -> bool:
    if FLAT_ROOT not in values:
        return True
    message = f"'{FLAT_ROOT}' cannot be a value: it is the root of a hierarchy made from values"
    table.fault(message, key="values", value=FLAT_ROOT)
    return False


def _check_complete(table: Table, tree: Hierarchy, values: Sequence[str]) -> None:
    leaves = set(tree.leaves)
    missing = [value for value in values if value not in leaves]
    if missing:
        message = f"not a leaf of the hierarchy: {_quoted(missing)}"
        hint = "add a path for each, or take it out of values"
        table.fault(message, key="values", value=missing[0], hint=hint)


def _check_names(tables: Sequence[Table]) -> None:
    first: dict[str, Table] = {}
    for table in tables:
        earlier = first.setdefault(table.attribute, table)
        if table.attribute and earlier is not table:
            line = line_of(table.document.lines, (*earlier.path, "name"))
            message = f"declared twice, first on line {line}"
            table.fault(message, key="name", value=table.attribute)


def _check_roles(
    top: Table, tables: Sequence[Table], attributes: Sequence[Attribute | None]
) -> None:
    """Check what only shows when all attributes are known: how many there are of each role."""
    by_role: dict[Role | None, list[Table]] = {}
    for table, attribute in zip(tables, attributes, strict=True):
        by_role.setdefault(attribute.role if attribute else None, []).append(table)
        published = attribute is not None and attribute.role is not Role.IDENTIFIER
        if published and table.attribute == CLASS_ID:
            message = f"the name '{CLASS_ID}' is taken by the column that names the class"
            table.fault(message, key="name", value=CLASS_ID, hint="rename it in the data")
    quasi_identifiers = by_role.get(Role.QUASI_IDENTIFIER, [])
    if not quasi_identifiers and None not in by_role:
        hint = f'give at least one [[attribute]] role = "{Role.QUASI_IDENTIFIER}"'
        top.fault("no attribute is a quasi-identifier, so nothing can be anonymised", hint=hint)
    for table in quasi_identifiers[QUASI_IDENTIFIERS_MAX : QUASI_IDENTIFIERS_MAX + 1]:
        message = f"{len(quasi_identifiers)} quasi-identifiers, at most {QUASI_IDENTIFIERS_MAX}"
        table.fault(message, key="role")
    sensitive = by_role.get(Role.SENSITIVE, [])
    for table in sensitive[1:]:
        message = f"a second sensitive attribute, after '{sensitive[0].attribute}'"
        hint = 'diversity is counted over one; drop the others with role = "identifier"'
        table.fault(message, key="role", value=Role.SENSITIVE, hint=hint)


def _quoted(words: Sequence[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
