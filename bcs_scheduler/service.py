"""Puts a scheduler together from its settings: store, core, Mesos driver, HTTP API."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog
from starlette.types import ASGIApp

from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.connections import RESERVE, Connections
from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.api.routes import executor
from bcs_scheduler.appmanagers.service import ManagerRunner
from bcs_scheduler.authentication import Authentication, log_access
from bcs_scheduler.console.figures import Figures
from bcs_scheduler.console.site import Site
from bcs_scheduler.core.interface.cluster_manager import ClusterManager, Deliver
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.log import DecisionLog
from bcs_scheduler.leadership.runtime import Runtime
from bcs_scheduler.leadership.term import ManagersFactory, ProberFactory, PublisherFactory
from bcs_scheduler.loop.plugin_watch import PluginWatch
from bcs_scheduler.mesos.driver import Driver
from bcs_scheduler.mesos.launches.builders import AnyExecutorBuilder
from bcs_scheduler.mesos.launches.executor_info import ExecutorOptions
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport.reach import reaches_master
from bcs_scheduler.net.addresses import parse_address, without_account
from bcs_scheduler.observability.alarms import Alarms
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.prober.prober import Prober
from bcs_scheduler.prober.targets import Lookup
from bcs_scheduler.publishing.target import parse_target
from bcs_scheduler.security.proxies import read_networks
from bcs_scheduler.settings.managers import manager_settings, managers_of_settings
from bcs_scheduler.settings.partitions import partitions_of_settings
from bcs_scheduler.settings.policies import policy_of_settings, queues_of_settings
from bcs_scheduler.settings.recorded import recorded_settings
from bcs_scheduler.settings.sections import Settings
from bcs_scheduler.settings.storage import store_of, warn_of_readable_files
from bcs_scheduler.version import VERSION
from transactions.base import Options, Periods

log = structlog.get_logger(__name__)
OTHER_FILES = 512
"""Files that the process may have open beside the connections of the API: store, agents, probes, sessions."""
LEAST = 64
"""Connections of the API that are allowed in any case."""


class Service:
    """One scheduler process. `start` returns when the HTTP API answers; the rest comes up behind it."""

    def __init__(self, settings: Settings, failed: Callable[[str], object] | None = None) -> None:
        """`failed` is called in another thread, with the reason, when the process must end: without its API, the
        process is of no use."""
        self._settings = settings
        address = parse_address(settings.api.listen, allow_zero=True)
        self.metrics = Metrics(
            settings.cluster,
            settings.metrics.taskgroup_label,
            application_series=settings.metrics.application_series,
            application_histograms=settings.metrics.application_histograms,
        )
        self._authentication = Authentication(settings, self.metrics)
        self._server = ApiServer(
            address.host,
            address.port,
            self._authentication.tls.context if self._authentication.tls else None,
            failed,
            Connections(descriptors_for(settings.api.connections), settings.api.client_share, metrics=self.metrics),
            read_networks(settings.api.trusted_proxies),
        )
        self.runtime: Runtime | None = None
        self._figures: Figures | None = None
        self._alarms: Alarms | None = None
        self._decisions: DecisionLog | None = None

    @property
    def url(self) -> str:
        return self._server.url

    def start(self) -> None:
        """Raises OSError if the address is taken, ValueError for a store URL that cannot be used,
        ConfigError for its files."""
        store = store_of(self._settings.store)
        self._server.bind()
        log_access(self._settings)  # after `bind`: a failed start logs only its reason
        warn_of_readable_files(self._settings)
        url = self._settings.api.advertise or self._server.url
        if self._settings.alarms.url:
            self._alarms = Alarms(self._settings.alarms, self._settings.cluster, url, self.metrics.alarmed)
            self._alarms.start()
        if self._settings.decisions.folder:
            self._decisions = decision_log(self._settings, self.metrics)
            self._decisions.start()
        self.runtime = Runtime(
            store,
            core_options(self._settings),
            driver_factory(self._settings, url),
            self.metrics,
            url,
            prober_factory(self._settings, self.metrics),
            publisher_factory(self._settings, url, self.metrics),
            self._settings.events.watchers,
            self._alarms,
            reaches=partial(reaches_master, mesos_settings(self._settings, url)),
            patience=self._settings.mesos.patience,
            make_managers=managers_factory(self._settings, self.metrics),
            decisions=self._decisions,
            further_checks=self._authentication.checks,
        )
        if self._decisions is not None and self._settings.decisions.term_seconds:
            self._decisions.renewing(self.runtime.renew, self._settings.decisions.term_seconds)
        self._figures = Figures(self.runtime)
        self._server.start(self._api(self.runtime, self._figures))
        self.runtime.start()
        self._figures.start()
        mesos = without_account(self._settings.mesos.url)
        log.info("serving", url=self._server.url, store=self._settings.store.url, mesos=mesos)

    def _api(self, runtime: Runtime, figures: Figures) -> ASGIApp:
        options, gate, webhooks = api_options(self._settings), self._authentication.gate, self._settings.webhooks
        admission = Admission(
            local=webhooks.local,
            total=webhooks.total_timeout,
            limit=self._settings.api.max_body_bytes,
            asked=self.metrics.webhook_asked,
        )
        return create_app(runtime, options, gate, admission, self.metrics, Site(runtime, options, gate, figures))

    def reload(self) -> None:
        """Reads certificates and tokens again, and opens the audit log again. Settings are not read again."""
        self._authentication.reload()
        log.info("certificates and tokens reloaded, audit log reopened")

    def stop(self) -> None:
        """Steps down first, so that another scheduler takes over while the last answers are still sent."""
        if self._figures is not None:
            self._figures.stop()
        if self.runtime is not None:
            self.runtime.stop()
        if self._decisions is not None:
            self._decisions.stop()
        if self._alarms is not None:
            self._alarms.stop()
        self._server.stop()
        self._authentication.close()


def descriptors_for(connections: int) -> int:
    """Raises the limit of open files of this process, as far as it may, for so many connections. Returns the number of
    connections for which the limit suffices."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return connections
    wanted = connections + RESERVE + OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = max(LEAST, min(connections, soft - RESERVE - OTHER_FILES))
    if possible < connections:
        log.warning("the limit of open files allows fewer connections than api.connections", allowed=possible)
    return possible


def api_options(settings: Settings) -> ApiSettings:
    return ApiSettings(
        max_body=settings.api.max_body_bytes,
        command_timeout=settings.api.request_timeout,
        version=VERSION,
        default_executor=settings.executor.default,
        executor_python=settings.executor.python,
        sessions=settings.api.sessions,
        client_share=settings.api.client_share,
        session_idle=settings.api.session_idle,
        answer_timeout=settings.executor.answer_timeout,
        reserve=settings.executor.reserve,
        overhead=Driver.traits.overhead,
        max_priority=settings.scheduler.max_priority,
    )


def core_options(settings: Settings) -> CoreOptions:
    scheduler, periods = settings.scheduler, settings.transactions
    tree = queues_of_settings(scheduler.policy, scheduler.policy_file)
    partitions = partitions_of_settings(scheduler.policies_file, settings.mesos.roles)
    policies = {part.kind for part in partitions} or {scheduler.policy}
    return CoreOptions(
        transactions=Options(
            periods=Periods(
                default=periods.default,
                launch=periods.launch,
                rolling_up=periods.rolling_up,
                rolling_down=periods.rolling_down,
                delete=periods.inner_delete,
                inner_reschedule=periods.inner_reschedule,
                restart_reset=periods.restart_reset,
                queued=periods.queued,
                update_delay=periods.update_delay,
                retention=scheduler.transaction_retention,
            ),
            role=settings.mesos.roles[0],
            version_history=scheduler.version_history,
            keep_each=scheduler.transaction_keep,
            keep_total=scheduler.transaction_keep_total,
        ),
        scoring=scheduler.scoring,
        policy=policy_of_settings(scheduler.policy, scheduler.policy_file),
        partitions=partitions,
        placeholders=scheduler.placeholders,
        unmanaged=scheduler.unmanaged,
        hierarchy=tree.partition if tree is not None else None,
        hierarchy_document=tree.document if tree is not None else "",
        session_period=scheduler.session_period,
        session_clock=None if policies == {"simple"} else time.monotonic,
        plugin_watch=PluginWatch() if "session" in policies else None,
        aging=scheduler.aging,
        offer_hold=scheduler.offer_hold,
        refuse_idle=scheduler.refuse_seconds_idle,
        staging_timeout=scheduler.staging_timeout,
        silence_timeout=scheduler.silence_timeout,
        reconcile_interval=scheduler.reconcile_interval,
        kill_retry=scheduler.kill_retry,
        kill_retry_max=scheduler.kill_retry_max,
        validate=scheduler.validate,
        executor=settings.executor.default,
        traits=Driver.traits,
        answer_timeout=settings.executor.answer_timeout,
        command_keep=scheduler.command_keep,
        command_keep_total=scheduler.command_keep_total,
        output_keep=scheduler.output_keep,
        output_keep_total=scheduler.output_keep_total,
        output_retention=scheduler.output_retention,
        loss_share=scheduler.loss_share,
        loss_pause=scheduler.loss_pause,
        rebalance=scheduler.rebalance,
        rebalance_period=scheduler.rebalance_period,
        rebalance_moves=scheduler.rebalance_moves,
        rebalance_gain=scheduler.rebalance_gain,
        max_priority=scheduler.max_priority,
        queue_requests=scheduler.queue_requests,
        queue_total=scheduler.queue_total,
        command_open=scheduler.command_open,
        command_open_total=scheduler.command_open_total,
        events_retention=settings.events.retention,
        events_keep=settings.events.keep,
    )


def decision_log(settings: Settings, metrics: Metrics) -> DecisionLog:
    """Raises ConfigError if the policy file cannot be read."""
    given = settings.decisions
    recorded = recorded_settings(settings)
    return DecisionLog(Path(given.folder), given.file_bytes, given.files, *recorded, lost=metrics.decision_lost)


def prober_factory(settings: Settings, metrics: Metrics) -> ProberFactory | None:
    """None where an outside module probes."""
    if not settings.health.prober:
        return None
    concurrency = settings.health.concurrency
    return lambda state, report, clock: Prober(Lookup(state), report, concurrency, clock, metrics.probed)


def publisher_factory(settings: Settings, url: str, metrics: Metrics) -> PublisherFactory | None:
    """None where services are not published elsewhere."""
    if not settings.services.publish:
        return None
    from bcs_scheduler.publishing.publisher import Publisher  # with the library for ZooKeeper

    target, services = parse_target(settings.services.publish), settings.services
    if services.user:
        target = target._replace(user=services.user, password=services.password())
    return lambda epoch, records: Publisher(target, epoch, url, records, metrics.published)


def managers_factory(settings: Settings, metrics: Metrics) -> ManagersFactory | None:
    """Returns None without application managers. Raises ConfigError for one that cannot be used, and for a file of
    settings that cannot be read."""
    names = settings.scheduler.app_managers
    if not names:
        return None
    given = manager_settings(names, settings.scheduler.app_managers_file)
    make = partial(managers_of_settings, names)
    make()
    return lambda state, submit, now: ManagerRunner(make, given, state, submit, now, metrics.manager_runs)


def mesos_settings(settings: Settings, api_url: str) -> MesosSettings:
    mesos = settings.mesos
    return MesosSettings(
        master=mesos.url,
        framework_name=mesos.framework_name,
        user=mesos.user or MesosSettings.user,
        roles=mesos.roles,
        principal=mesos.principal,
        secret=mesos.secret(),
        failover_timeout=mesos.failover_timeout,
        hostname=mesos.hostname,
        webui_url=mesos.webui_url or api_url,
        gpus=mesos.gpu,
        missed_heartbeats=mesos.heartbeat_tolerance,
        output_limit=settings.executor.output_limit,
    )


def driver_factory(settings: Settings, api_url: str) -> Callable[[Deliver], ClusterManager]:
    presented = mesos_settings(settings, api_url)
    options = executor_options(settings, api_url)
    if _is_local(options.uri) and not _is_local(settings.mesos.url):
        log.warning("agents cannot fetch the executor: set api.advertise or executor.url", url=options.uri)
    return lambda deliver: Driver(presented, deliver, AnyExecutorBuilder(options))


def _is_local(url: str) -> bool:
    """It means this machine to everybody who reads it."""
    return any(f"//{host}" in url for host in ("127.", "localhost", "[::1]"))


def executor_options(settings: Settings, api_url: str) -> ExecutorOptions:
    """Agents may cache the executor file of this scheduler, since its address changes with its content. At an address
    of an operator, the file may change."""
    given = settings.executor
    return ExecutorOptions(
        uri=given.url or executor.location(api_url),
        cache=not given.url,
        python=given.python,
        docker=given.docker_socket,
        report_interval=given.report_interval,
        log_max_bytes=given.log_max_bytes,
        log_files=given.log_files,
    )
