"""Rules about several settings together (bcs_scheduler.settings.config)."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.net.addresses import parse_address
from bcs_scheduler.security.proxies import read_networks
from bcs_scheduler.settings.sections import ApiSettings, MesosSettings, ServiceSettings, Settings, StoreSettings

Broken = tuple[str, str]
"""The setting to be named, and why it cannot stay as it is."""


def broken_rules(settings: Settings) -> Iterator[Broken]:
    """In the order in which they are to be told; reads the files of passwords, too. Raises ConfigError for those."""
    yield from _mesos(settings.mesos)
    yield from _store(settings.store)
    yield from _services(settings.services)
    yield from _api(settings.api)
    if settings.scheduler.policy_file and settings.scheduler.policy == "simple":
        yield "scheduler.policy_file", 'is only read with scheduler.policy = "session" or "hierarchical"'
    if settings.scheduler.policies_file and (settings.scheduler.policy != "simple" or settings.scheduler.policy_file):
        yield "scheduler.policies_file", "excludes scheduler.policy and scheduler.policy_file"
    if settings.scheduler.app_managers and settings.scheduler.placeholders == "off":
        yield "scheduler.app_managers", "needs scheduler.placeholders, for the gangs of applications"
    if settings.scheduler.placeholders == "reserve" and "*" in settings.mesos.roles:
        yield "scheduler.placeholders", '"reserve" needs mesos.roles without "*": only a role can reserve resources'
    if settings.scheduler.app_managers_file and not settings.scheduler.app_managers:
        yield "scheduler.app_managers_file", "is only read with scheduler.app_managers"
    if settings.scheduler.kill_retry_max < settings.scheduler.kill_retry:
        yield "scheduler.kill_retry_max", "must not be less than scheduler.kill_retry"


def _mesos(mesos: MesosSettings) -> Iterator[Broken]:
    if mesos.secret_file and not mesos.principal:
        yield "mesos.secret_file", "a secret needs mesos.principal too"
    mesos.secret()
    if len(set(mesos.roles)) != len(mesos.roles):
        yield "mesos.roles", "a role is named twice"


def _store(store: StoreSettings) -> Iterator[Broken]:
    if store.user and store.password_file and not store.url.startswith("zk://"):
        yield "store.user", "is only valid with ZooKeeper (zk://...)"
    yield from _login("store", store)


def _services(services: ServiceSettings) -> Iterator[Broken]:
    yield from _login("services", services)
    if services.user and "@" in services.publish:
        yield "services.user", "services.publish has a user already"


def _login(section: str, login: StoreSettings | ServiceSettings) -> Iterator[Broken]:
    """Of ZooKeeper's scheme digest."""
    if bool(login.user) != bool(login.password_file):
        yield f"{section}.user", f"must be set together with {section}.password_file"
    if ":" in login.user:
        yield f"{section}.user", "must not contain ':'"
    if login.password_file and not login.password():
        yield f"{section}.password_file", f"{login.password_file} is empty"


def _api(api: ApiSettings) -> Iterator[Broken]:
    if bool(api.tls_cert) != bool(api.tls_key):
        given = "api.tls_cert" if api.tls_cert else "api.tls_key"
        yield given, "certificate and key belong together: set both"
    if api.tls_client_ca and not api.tls_cert:
        yield "api.tls_client_ca", "needs api.tls_cert and api.tls_key too"
    if api.advertise and api.tls_cert and not api.advertise.startswith("https://"):
        yield "api.advertise", "must be an https URL, because api.tls_cert is set"
    try:
        read_networks(api.trusted_proxies)
    except ValueError as error:
        yield "api.trusted_proxies", str(error)
    if api.allow_anonymous and api.protected:
        yield "api.allow_anonymous", "contradicts api.tokens_file and api.tls_client_ca"
    if not (api.protected or api.allow_anonymous or parse_address(api.listen, allow_zero=True).loopback):
        yield (
            "api.listen",
            f"{api.listen} is reachable from other machines: set api.tokens_file (or api.allow_anonymous = true, "
            "and every client of the API can then run any program on the cluster)",
        )
