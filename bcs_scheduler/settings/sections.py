"""The settings of `bcs-scheduler` by section, with their bounds and defaults.

A default is written once. Where a setting sets an option of another part of the program, the option has the default,
and the setting refers to the option; `bcs_scheduler.service` passes the values on. All times are seconds, all sizes
bytes, unless the description of the setting names another unit. `Help` describes a setting in one line, which the
command line shows with the default; conf/scheduler.toml explains the details.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec

from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.http.connections import MOST
from bcs_scheduler.api.http.operation import ApiSettings as ApiOptions
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.hub import WATCHERS
from bcs_scheduler.leadership.runtime import PATIENCE
from bcs_scheduler.mesos.launches.executor_info import ExecutorOptions
from bcs_scheduler.mesos.settings import MesosSettings as MesosOptions
from offers.matching.ranking import Scoring
from store.base import SESSION_TIMEOUT
from store.records import Executor

_CORE = CoreOptions()
_TRANSACTIONS = _CORE.transactions
_PERIODS = _TRANSACTIONS.periods
_API = ApiOptions()
_MESOS = MesosOptions(master="http://127.0.0.1:5050")
_ADMISSION = Admission()
_EXECUTOR = ExecutorOptions(uri="")

TEN_YEARS = 315_360_000.0
Seconds = Annotated[float, msgspec.Meta(ge=0, le=TEN_YEARS)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=TEN_YEARS)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]


class ConfigError(Exception):
    """A setting is wrong or unknown. The message is one line that says where it was given, which, and why."""


class Help(NamedTuple):
    """The description of a setting: one line that begins with the unit of the value, if the value is a number."""

    text: str


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the groups of options."""


class StoreSettings(Section, frozen=True, kw_only=True):
    url: Annotated[Name, Help("URL of the store: zk://, sqlite:// or memory:.")] = (
        "sqlite:////var/lib/bcs-scheduler/state.db"
    )
    session_timeout: Annotated[
        float, msgspec.Meta(ge=1, le=3600), Help("Seconds after which ZooKeeper ends the session of a silent leader.")
    ] = SESSION_TIMEOUT
    user: Annotated[str, Help("User of the scheduler in ZooKeeper; only this user can access the nodes.")] = ""
    password_file: Annotated[str, Help("File with the password of store.user.")] = ""
    secret_key_file: Annotated[str, Help("File with the keys that encrypt confidential records.")] = ""

    def password(self) -> str:
        """Of `user`, empty without `password_file`. Raises ConfigError if it cannot be read."""
        return _text_of("store.password_file", self.password_file) if self.password_file else ""


class MesosSettings(Section, frozen=True, kw_only=True):
    url: Annotated[Name, Help("Masters: http://host:port[,...], or zk://host:port,.../path.")] = _MESOS.master
    framework_name: Annotated[Name, Help("Name of the framework in Mesos.")] = _MESOS.framework_name
    user: Annotated[str, Help("User of tasks whose document names no user.")] = _MESOS.user
    roles: Annotated[
        tuple[Name, ...],
        msgspec.Meta(min_length=1),
        Help("Roles of the framework; the first one is the default of applications."),
    ] = _MESOS.roles
    principal: Annotated[str, Help("Principal for masters that authenticate frameworks.")] = _MESOS.principal
    secret_file: Annotated[str, Help("File with the secret of mesos.principal.")] = ""
    failover_timeout: Annotated[
        Seconds, Help("Seconds that Mesos keeps the tasks while no scheduler is subscribed.")
    ] = _MESOS.failover_timeout
    hostname: Annotated[str, Help("Host name shown by the masters; empty = the name of this machine.")] = (
        _MESOS.hostname
    )
    webui_url: Annotated[str, Help("Link shown by the masters; empty = the address of the HTTP API.")] = ""
    gpu: Annotated[bool, Help("Take offers of agents that have GPUs.")] = _MESOS.gpus
    heartbeat_tolerance: Annotated[
        Count, Help("Number of missed heartbeats after which the connection counts as dead.")
    ] = _MESOS.missed_heartbeats
    patience: Annotated[Positive, Help("Seconds without a subscription after which a leader may resign.")] = PATIENCE

    def secret(self) -> str:
        """The secret of `principal`, empty without `secret_file`. Raises ConfigError if it cannot be read."""
        return _text_of("mesos.secret_file", self.secret_file) if self.secret_file else ""


class ApiSettings(Section, frozen=True, kw_only=True):
    listen: Annotated[Name, Help("host:port of the HTTP API; port 0 takes a free port.")] = "127.0.0.1:8080"
    advertise: Annotated[str, Help("URL at which other schedulers and users reach this scheduler.")] = ""
    max_body_bytes: Annotated[Count, Help("Bytes of the largest request body.")] = _API.max_body
    request_timeout: Annotated[Positive, Help("Seconds that a request may wait until its change is durable.")] = (
        _API.command_timeout
    )
    tls_cert: Annotated[str, Help("PEM file with the certificate of the API: HTTPS only.")] = ""
    tls_key: Annotated[str, Help("PEM file with the key of api.tls_cert.")] = ""
    tls_client_ca: Annotated[str, Help("PEM file with the authorities of client certificates.")] = ""
    tokens_file: Annotated[str, Help("File with the hashes, holders and rights of the tokens.")] = ""
    allow_anonymous: Annotated[bool, Help("Accept connections from other machines without tokens.")] = False
    open_metrics: Annotated[bool, Help("Show /metrics without a token.")] = False
    rate_limit: Annotated[
        float, msgspec.Meta(ge=0, le=1_000_000), Help("Requests per second of one token or address; 0 = unlimited.")
    ] = 0.0
    rate_burst: Annotated[
        int, msgspec.Meta(ge=1, le=1_000_000), Help("Number of requests that api.rate_limit accepts at once.")
    ] = 200
    audit_file: Annotated[str, Help("File of the audit log; empty = the normal log.")] = ""
    connections: Annotated[
        int, msgspec.Meta(ge=10, le=1_000_000), Help("Number of connections to the API that are open at a time.")
    ] = MOST
    client_share: Annotated[
        float,
        msgspec.Meta(gt=0, le=1),
        Help("Part of connections, sessions and watches for one address and caller."),
    ] = _API.client_share
    trusted_proxies: Annotated[
        tuple[Name, ...], Help("Addresses and networks of proxies whose X-Forwarded-For is believed.")
    ] = ()
    sessions: Annotated[
        int, msgspec.Meta(ge=0, le=10_000), Help("Number of sessions (bcs exec, cp, port-forward) at a time; 0 = none.")
    ] = _API.sessions
    session_idle: Annotated[Seconds, Help("Seconds after which an idle session ends; 0 = never.")] = _API.session_idle

    @property
    def protected(self) -> bool:
        """Clients have to show who they are."""
        return bool(self.tokens_file or self.tls_client_ca)


class SchedulerSettings(Section, frozen=True, kw_only=True):
    scoring: Annotated[Scoring, Help("Order of suitable agents: spread or binpack.")] = _CORE.scoring
    policy: Annotated[
        Literal["simple", "session", "hierarchical"],
        Help("Policy of placement: simple, session or hierarchical (docs/policies.md)."),
    ] = "simple"
    policy_file: Annotated[str, Help("YAML file of the policy, or of the tree of queues; empty = the default.")] = ""
    policies_file: Annotated[str, Help("YAML file of partitions of roles with a policy each; empty = one policy.")] = ""
    placeholders: Annotated[
        Literal["off", "sleep", "reserve", "hold"],
        Help("Placeholders of gangs: off, sleep, reserve or hold (docs/policies.md)."),
    ] = _CORE.placeholders
    unmanaged: Annotated[
        Literal["bypass", "wait", "refuse"],
        Help("Work without manager and reservation: bypass, wait or refuse."),
    ] = _CORE.unmanaged
    app_managers: Annotated[
        tuple[Name, ...], Help("Application managers of installed packages that run beside the leader.")
    ] = ()
    app_managers_file: Annotated[str, Help("YAML file with the settings of application managers, by name.")] = ""
    session_period: Annotated[Seconds, Help("Seconds between two sessions of a policy, at least.")] = (
        _CORE.session_period
    )
    aging: Annotated[Seconds, Help("Seconds of waiting after which work reserves room on an agent; 0: never.")] = (
        _CORE.aging
    )
    offer_hold: Annotated[Seconds, Help("Seconds that an unused offer is held before it is declined.")] = (
        _CORE.offer_hold
    )
    refuse_seconds_idle: Annotated[
        Seconds, Help("Seconds for which Mesos does not offer declined resources again.")
    ] = _CORE.refuse_idle
    staging_timeout: Annotated[
        Positive, Help("Seconds in Staging after which the scheduler asks about a taskgroup.")
    ] = _CORE.staging_timeout
    silence_timeout: Annotated[
        Positive, Help("Seconds without a report after which the scheduler asks about tasks.")
    ] = _CORE.silence_timeout
    reconcile_interval: Annotated[Positive, Help("Seconds between two reconciliations of all tasks.")] = (
        _CORE.reconcile_interval
    )
    kill_retry: Annotated[Positive, Help("Seconds after which an unanswered kill is repeated; doubled each time.")] = (
        _CORE.kill_retry
    )
    kill_retry_max: Annotated[Positive, Help("Seconds between two kills of a taskgroup, at most.")] = (
        _CORE.kill_retry_max
    )
    transaction_retention: Annotated[Seconds, Help("Seconds that an ended transaction stays readable.")] = (
        _PERIODS.retention
    )
    transaction_keep: Annotated[Count, Help("Number of ended transactions kept per application and initiator.")] = (
        _TRANSACTIONS.keep_each
    )
    transaction_keep_total: Annotated[Count, Help("Number of ended transactions kept in all.")] = (
        _TRANSACTIONS.keep_total
    )
    command_keep: Annotated[Count, Help("Number of ended commands kept per application or deployment.")] = (
        _CORE.command_keep
    )
    command_keep_total: Annotated[Count, Help("kB in the store of all ended commands that are kept.")] = (
        _CORE.command_keep_total
    )
    output_keep: Annotated[
        int,
        msgspec.Meta(ge=0),
        Help("Number of last outputs kept per deployment or application."),
    ] = _CORE.output_keep
    output_keep_total: Annotated[Count, Help("kB in the store of all outputs that are kept.")] = _CORE.output_keep_total
    output_retention: Annotated[Positive, Help("Seconds that the output of a failed task stays readable.")] = (
        _CORE.output_retention
    )
    loss_share: Annotated[
        float,
        msgspec.Meta(ge=0, le=1),
        Help("Part of the cluster whose loss stops replacements; 0 = no guard."),
    ] = _CORE.loss_share
    loss_pause: Annotated[
        float,
        msgspec.Meta(ge=0),
        Help("Seconds until replacements continue after such a loss; 0 = never."),
    ] = _CORE.loss_pause
    rebalance: Annotated[Literal["off", "pack", "spread"], Help("Goal of moves of taskgroups without a request.")] = (
        _CORE.rebalance
    )
    rebalance_period: Annotated[Positive, Help("Seconds between two rounds of such moves.")] = _CORE.rebalance_period
    rebalance_moves: Annotated[int, msgspec.Meta(ge=1, le=100), Help("Number of moves of a round at most.")] = (
        _CORE.rebalance_moves
    )
    rebalance_gain: Annotated[
        float, msgspec.Meta(ge=0.0001, le=1), Help("Part of a squared share that a move must gain.")
    ] = _CORE.rebalance_gain
    max_priority: Annotated[
        int,
        msgspec.Meta(ge=0, le=1_000_000_000),
        Help("Number that no priority of new work exceeds where no namespace sets it."),
    ] = _CORE.max_priority
    queue_requests: Annotated[
        int, msgspec.Meta(ge=0, le=1000), Help("Number of requests that may wait for one object; 0 = none.")
    ] = _CORE.queue_requests
    queue_total: Annotated[
        int,
        msgspec.Meta(ge=1, le=1_000_000),
        Help("kB in memory of all requests that wait; more are refused with 429."),
    ] = _CORE.queue_total
    command_open: Annotated[Count, Help("kB of the open commands of a namespace; more are refused with 429.")] = (
        _CORE.command_open
    )
    command_open_total: Annotated[Count, Help("kB of all open commands; more are refused with 429.")] = (
        _CORE.command_open_total
    )
    version_history: Annotated[Count, Help("Number of versions kept per application.")] = _TRANSACTIONS.version_history
    validate: Annotated[bool, Help("Compare all indexes with a recount after turns with changes.")] = _CORE.validate


class TransactionSettings(Section, frozen=True, kw_only=True):
    """Life periods by operation; afterwards the transaction ends with TIMEOUT."""

    default: Annotated[Positive, Help("Seconds that a transaction without a period of its own may take.")] = (
        _PERIODS.default
    )
    launch: Annotated[Positive, Help("Seconds that the launch of an application may take.")] = _PERIODS.launch
    inner_reschedule: Annotated[Positive, Help("Seconds that the replacement of a failed taskgroup may take.")] = (
        _PERIODS.inner_reschedule
    )
    rolling_up: Annotated[Positive, Help("Seconds that a step of a rolling update may take to add taskgroups.")] = (
        _PERIODS.rolling_up
    )
    rolling_down: Annotated[
        Positive, Help("Seconds that a step of a rolling update may take to remove taskgroups.")
    ] = _PERIODS.rolling_down
    inner_delete: Annotated[Positive, Help("Seconds that a deletion may take.")] = _PERIODS.delete
    restart_reset: Annotated[Positive, Help("Seconds of running after which the restart counter is reset.")] = (
        _PERIODS.restart_reset
    )
    queued: Annotated[Positive, Help("Seconds that a request may wait for an operation in progress.")] = _PERIODS.queued
    update_delay: Annotated[Seconds, Help("Seconds before the first step of an update.")] = _PERIODS.update_delay


class ExecutorSettings(Section, frozen=True, kw_only=True):
    default: Annotated[Executor, Help("Executor of taskgroups whose document names none: bcs or mesos.")] = (
        _CORE.executor
    )
    url: Annotated[str, Help("URL from which agents fetch the executor; empty = from the HTTP API.")] = ""
    python: Annotated[Name, Help("Python on the agents.")] = _EXECUTOR.python
    docker_socket: Annotated[Name, Help("Socket of the container engine on the agents.")] = _EXECUTOR.docker
    report_interval: Annotated[Positive, Help("Seconds between the regular reports of an executor.")] = (
        _EXECUTOR.report_interval
    )
    log_max_bytes: Annotated[
        int, msgspec.Meta(ge=4096), Help("Bytes of a log file of a task before the file is rotated.")
    ] = _EXECUTOR.log_max_bytes
    log_files: Annotated[
        int, msgspec.Meta(ge=1, le=100), Help("Number of log files that are kept of each output stream.")
    ] = _EXECUTOR.log_files
    output_limit: Annotated[
        int, msgspec.Meta(ge=256, le=65536), Help("Bytes kept of each output stream of a command run in a task.")
    ] = _MESOS.output_limit
    answer_timeout: Annotated[Positive, Help("Seconds that an executor may take to answer a message.")] = (
        _CORE.answer_timeout
    )
    reserve: Annotated[Positive, Help("Seconds that outcomes of commands and messages stay readable.")] = _API.reserve


class HealthSettings(Section, frozen=True, kw_only=True):
    prober: Annotated[bool, Help("Probe remote health checks from the leading scheduler.")] = True
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000), Help("Number of probes in progress at once.")] = 256


class ServiceSettings(Section, frozen=True, kw_only=True):
    publish: Annotated[str, Help("zk:// URL to publish services and endpoints at; empty = none.")] = ""
    user: Annotated[str, Help("User of the scheduler in that ZooKeeper; empty = no login.")] = ""
    password_file: Annotated[str, Help("File with the password of services.user.")] = ""

    def password(self) -> str:
        """Of `user`, empty without `password_file`. Raises ConfigError if it cannot be read."""
        return _text_of("services.password_file", self.password_file) if self.password_file else ""


class WebhookSettings(Section, frozen=True, kw_only=True):
    local: Annotated[bool, Help("Admission webhooks may have any address, also on this machine.")] = _ADMISSION.local
    total_timeout: Annotated[
        float, msgspec.Meta(ge=0.1, le=300), Help("Seconds that all webhooks of one request may take together.")
    ] = _ADMISSION.total


class EventSettings(Section, frozen=True, kw_only=True):
    retention: Annotated[Positive, Help("Seconds that events stay readable.")] = _CORE.events_retention
    keep: Annotated[int, msgspec.Meta(ge=1, le=1_000_000), Help("Number of events that are kept.")] = _CORE.events_keep
    watchers: Annotated[
        int, msgspec.Meta(ge=1, le=10_000), Help("Number of watches and streams that may be open at a time.")
    ] = WATCHERS


class AlarmSettings(Section, frozen=True, kw_only=True):
    url: Annotated[str, Help("URL of the receiver of alarms; empty = no alarms.")] = ""
    token_file: Annotated[str, Help("File with the bearer token for the receiver; empty = none.")] = ""
    convergence: Annotated[Seconds, Help("Seconds during which the same alarm is not sent again.")] = 600.0
    timeout: Annotated[
        float, msgspec.Meta(ge=0.1, le=300), Help("Seconds that the receiver of alarms may take to answer.")
    ] = 10.0


class MetricsSettings(Section, frozen=True, kw_only=True):
    taskgroup_label: Annotated[bool, Help("Fill the label taskgroup of metrics: one series per taskgroup.")] = False
    application_series: Annotated[
        int, msgspec.Meta(ge=0, le=1_000_000), Help("Number of applications with series of their own.")
    ] = 2_000
    application_histograms: Annotated[bool, Help("Histograms for each application of metrics.application_series.")] = (
        False
    )


class LogSettings(Section, frozen=True, kw_only=True):
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Help("Least level that is logged: debug, info, warning or error.")
    ] = "info"
    format: Annotated[Literal["json", "console"], Help("console = text for people; json = one object per line.")] = (
        "console"
    )


class DecisionSettings(Section, frozen=True, kw_only=True):
    folder: Annotated[str, Help("Folder of the decision log; empty = inputs and decisions are not recorded.")] = ""
    file_bytes: Annotated[
        int, msgspec.Meta(ge=65_536, le=1 << 40), Help("Bytes after which the decision log continues in another file.")
    ] = 64 * 1024 * 1024
    files: Annotated[
        int, msgspec.Meta(ge=1, le=100_000), Help("Number of files that decisions.folder holds at most.")
    ] = 16
    term_seconds: Annotated[
        float,
        msgspec.Meta(ge=0, le=31_536_000),
        Help("Seconds that a term lasts before it ends at half of files; 0 = no end."),
    ] = 0.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set. `cluster` is the BCS cluster id, e.g. ``BCS-MESOS-10001``."""

    cluster: Annotated[Name, Help("BCS cluster id: the label clusterId of the metrics.")] = "BCS-LOCAL"
    store: StoreSettings = StoreSettings()
    mesos: MesosSettings = MesosSettings()
    api: ApiSettings = ApiSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    transactions: TransactionSettings = TransactionSettings()
    executor: ExecutorSettings = ExecutorSettings()
    health: HealthSettings = HealthSettings()
    services: ServiceSettings = ServiceSettings()
    webhooks: WebhookSettings = WebhookSettings()
    events: EventSettings = EventSettings()
    alarms: AlarmSettings = AlarmSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    decisions: DecisionSettings = DecisionSettings()


def _text_of(setting: str, path: str) -> str:
    """A password or the like, without blanks around it. Raises ConfigError."""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{setting}: cannot read {path}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """Why a file cannot be used, in one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.replace("\n", " ")
