from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_PROTOCOL_VERSION: _ClassVar[Reason]
    REASON_SCHEMA: _ClassVar[Reason]
    REASON_POLICY: _ClassVar[Reason]
    REASON_EXCHANGE: _ClassVar[Reason]
    REASON_NAME: _ClassVar[Reason]
    REASON_FULL: _ClassVar[Reason]
    REASON_NO_HELLO: _ClassVar[Reason]
    REASON_MALFORMED: _ClassVar[Reason]
    REASON_OVERSIZED: _ClassVar[Reason]
    REASON_STALE: _ClassVar[Reason]
    REASON_UNKNOWN: _ClassVar[Reason]

class AbortReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ABORT_REASON_UNSPECIFIED: _ClassVar[AbortReason]
    ABORT_REASON_TOO_FEW: _ClassVar[AbortReason]
    ABORT_REASON_TIMEOUT: _ClassVar[AbortReason]
    ABORT_REASON_EXHAUSTED: _ClassVar[AbortReason]
REASON_UNSPECIFIED: Reason
REASON_PROTOCOL_VERSION: Reason
REASON_SCHEMA: Reason
REASON_POLICY: Reason
REASON_EXCHANGE: Reason
REASON_NAME: Reason
REASON_FULL: Reason
REASON_NO_HELLO: Reason
REASON_MALFORMED: Reason
REASON_OVERSIZED: Reason
REASON_STALE: Reason
REASON_UNKNOWN: Reason
ABORT_REASON_UNSPECIFIED: AbortReason
ABORT_REASON_TOO_FEW: AbortReason
ABORT_REASON_TIMEOUT: AbortReason
ABORT_REASON_EXHAUSTED: AbortReason

class SiteFrame(_message.Message):
    __slots__ = ("sequence", "acknowledged", "messages")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    acknowledged: int
    messages: _containers.RepeatedCompositeFieldContainer[SiteMessage]
    def __init__(self, sequence: _Optional[int] = ..., acknowledged: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[SiteMessage, _Mapping]]] = ...) -> None: ...

class RelayFrame(_message.Message):
    __slots__ = ("sequence", "acknowledged", "messages")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    acknowledged: int
    messages: _containers.RepeatedCompositeFieldContainer[RelayMessage]
    def __init__(self, sequence: _Optional[int] = ..., acknowledged: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[RelayMessage, _Mapping]]] = ...) -> None: ...

class SiteMessage(_message.Message):
    __slots__ = ("hello", "share", "remove", "release", "propose", "vote", "ended", "withdraw", "publication", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROPOSE_FIELD_NUMBER: _ClassVar[int]
    VOTE_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    WITHDRAW_FIELD_NUMBER: _ClassVar[int]
    PUBLICATION_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    share: Share
    remove: Remove
    release: Release
    propose: Propose
    vote: Vote
    ended: Ended
    withdraw: Withdraw
    publication: Publication
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., remove: _Optional[_Union[Remove, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., propose: _Optional[_Union[Propose, _Mapping]] = ..., vote: _Optional[_Union[Vote, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., withdraw: _Optional[_Union[Withdraw, _Mapping]] = ..., publication: _Optional[_Union[Publication, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class RelayMessage(_message.Message):
    __slots__ = ("welcome", "refused", "members", "share", "remove", "release", "ask", "more", "commit", "abort")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    refused: Refused
    members: Members
    share: Share
    remove: Remove
    release: Release
    ask: Ask
    more: More
    commit: Commit
    abort: Abort
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., members: _Optional[_Union[Members, _Mapping]] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., remove: _Optional[_Union[Remove, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., ask: _Optional[_Union[Ask, _Mapping]] = ..., more: _Optional[_Union[More, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., abort: _Optional[_Union[Abort, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol_version", "site", "schema_fingerprint", "k", "l", "exchange", "persons_disjoint", "values_as_tokens", "own_k", "own_l", "numeric", "categorical")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    L_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    PERSONS_DISJOINT_FIELD_NUMBER: _ClassVar[int]
    VALUES_AS_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OWN_K_FIELD_NUMBER: _ClassVar[int]
    OWN_L_FIELD_NUMBER: _ClassVar[int]
    NUMERIC_FIELD_NUMBER: _ClassVar[int]
    CATEGORICAL_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    site: str
    schema_fingerprint: bytes
    k: int
    l: int
    exchange: str
    persons_disjoint: bool
    values_as_tokens: bool
    own_k: int
    own_l: int
    numeric: int
    categorical: int
    def __init__(self, protocol_version: _Optional[int] = ..., site: _Optional[str] = ..., schema_fingerprint: _Optional[bytes] = ..., k: _Optional[int] = ..., l: _Optional[int] = ..., exchange: _Optional[str] = ..., persons_disjoint: _Optional[bool] = ..., values_as_tokens: _Optional[bool] = ..., own_k: _Optional[int] = ..., own_l: _Optional[int] = ..., numeric: _Optional[int] = ..., categorical: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("site_index", "sites", "last_id")
    SITE_INDEX_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    LAST_ID_FIELD_NUMBER: _ClassVar[int]
    site_index: int
    sites: int
    last_id: int
    def __init__(self, site_index: _Optional[int] = ..., sites: _Optional[int] = ..., last_id: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reason", "detail", "message")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    detail: str
    message: str
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., detail: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class Members(_message.Message):
    __slots__ = ("sites",)
    SITES_FIELD_NUMBER: _ClassVar[int]
    sites: int
    def __init__(self, sites: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ended(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("id", "size", "box", "values")
    ID_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    id: int
    size: int
    box: bytes
    values: bytes
    def __init__(self, id: _Optional[int] = ..., size: _Optional[int] = ..., box: _Optional[bytes] = ..., values: _Optional[bytes] = ...) -> None: ...

class Share(_message.Message):
    __slots__ = ("clusters",)
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ...) -> None: ...

class Remove(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("clusters", "classes")
    CLUSTERS_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    clusters: _containers.RepeatedCompositeFieldContainer[Cluster]
    classes: _containers.RepeatedCompositeFieldContainer[Class]
    def __init__(self, clusters: _Optional[_Iterable[_Union[Cluster, _Mapping]]] = ..., classes: _Optional[_Iterable[_Union[Class, _Mapping]]] = ...) -> None: ...

class Class(_message.Message):
    __slots__ = ("id", "bounds")
    ID_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    id: int
    bounds: bytes
    def __init__(self, id: _Optional[int] = ..., bounds: _Optional[bytes] = ...) -> None: ...

class Propose(_message.Message):
    __slots__ = ("settlement", "box", "radius", "persons", "tokens", "reach", "values", "spare", "hurry")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SPARE_FIELD_NUMBER: _ClassVar[int]
    HURRY_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    box: bytes
    radius: int
    persons: int
    tokens: bytes
    reach: bytes
    values: bytes
    spare: int
    hurry: bool
    def __init__(self, settlement: _Optional[int] = ..., box: _Optional[bytes] = ..., radius: _Optional[int] = ..., persons: _Optional[int] = ..., tokens: _Optional[bytes] = ..., reach: _Optional[bytes] = ..., values: _Optional[bytes] = ..., spare: _Optional[int] = ..., hurry: _Optional[bool] = ...) -> None: ...

class Ask(_message.Message):
    __slots__ = ("settlement", "box", "radius", "persons", "values_wanted")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    VALUES_WANTED_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    box: bytes
    radius: int
    persons: int
    values_wanted: bool
    def __init__(self, settlement: _Optional[int] = ..., box: _Optional[bytes] = ..., radius: _Optional[int] = ..., persons: _Optional[int] = ..., values_wanted: _Optional[bool] = ...) -> None: ...

class Vote(_message.Message):
    __slots__ = ("settlement", "short", "tokens", "reach", "values", "spare")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    SHORT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SPARE_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    short: int
    tokens: bytes
    reach: bytes
    values: bytes
    spare: int
    def __init__(self, settlement: _Optional[int] = ..., short: _Optional[int] = ..., tokens: _Optional[bytes] = ..., reach: _Optional[bytes] = ..., values: _Optional[bytes] = ..., spare: _Optional[int] = ...) -> None: ...

class More(_message.Message):
    __slots__ = ("settlement", "radius", "persons", "values_wanted", "values")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    RADIUS_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    VALUES_WANTED_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    radius: int
    persons: int
    values_wanted: bool
    values: bytes
    def __init__(self, settlement: _Optional[int] = ..., radius: _Optional[int] = ..., persons: _Optional[int] = ..., values_wanted: _Optional[bool] = ..., values: _Optional[bytes] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("settlement", "box", "reach", "persons", "values")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    BOX_FIELD_NUMBER: _ClassVar[int]
    REACH_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    box: bytes
    reach: bytes
    persons: int
    values: int
    def __init__(self, settlement: _Optional[int] = ..., box: _Optional[bytes] = ..., reach: _Optional[bytes] = ..., persons: _Optional[int] = ..., values: _Optional[int] = ...) -> None: ...

class Abort(_message.Message):
    __slots__ = ("settlement", "reason")
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    reason: AbortReason
    def __init__(self, settlement: _Optional[int] = ..., reason: _Optional[_Union[AbortReason, str]] = ...) -> None: ...

class Withdraw(_message.Message):
    __slots__ = ("settlement",)
    SETTLEMENT_FIELD_NUMBER: _ClassVar[int]
    settlement: int
    def __init__(self, settlement: _Optional[int] = ...) -> None: ...

class Persons(_message.Message):
    __slots__ = ("count", "tokens", "salt")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    count: int
    tokens: bytes
    salt: int
    def __init__(self, count: _Optional[int] = ..., tokens: _Optional[bytes] = ..., salt: _Optional[int] = ...) -> None: ...

class Publication(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedCompositeFieldContainer[Part]
    def __init__(self, parts: _Optional[_Iterable[_Union[Part, _Mapping]]] = ...) -> None: ...

class Part(_message.Message):
    __slots__ = ("class_id", "suppressed", "bounds", "records", "voted", "persons", "values", "payload", "reused")
    CLASS_ID_FIELD_NUMBER: _ClassVar[int]
    SUPPRESSED_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    VOTED_FIELD_NUMBER: _ClassVar[int]
    PERSONS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REUSED_FIELD_NUMBER: _ClassVar[int]
    class_id: int
    suppressed: bool
    bounds: bytes
    records: int
    voted: bool
    persons: Persons
    values: bytes
    payload: bytes
    reused: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, class_id: _Optional[int] = ..., suppressed: _Optional[bool] = ..., bounds: _Optional[bytes] = ..., records: _Optional[int] = ..., voted: _Optional[bool] = ..., persons: _Optional[_Union[Persons, _Mapping]] = ..., values: _Optional[bytes] = ..., payload: _Optional[bytes] = ..., reused: _Optional[_Iterable[int]] = ...) -> None: ...
