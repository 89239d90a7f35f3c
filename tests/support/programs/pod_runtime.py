"""The runtime's configuration (OCI) that a kubelet and containerd make for a pod's only container, from its manifest.

It is read from the manifest, so that each change there is tested: user, capabilities, seccomp, limits, command,
environment, mounts. Only the network differs: it is the machine's, so the ports are the test's.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The profile of containerd and Docker, as the engines' common package has it; what RuntimeDefault is.
SECCOMP = Path("/usr/share/containers/seccomp.json")
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# containerd's, for a container that drops none.
_CAPABILITIES = (
    "CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE SYS_CHROOT KILL "
    "AUDIT_WRITE"
)
_MASKED = (
    "/proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats "
    "/proc/sched_debug /sys/firmware /proc/scsi"
)
_READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger"
_ARCHITECTURES = {
    "x86_64": ("amd64", ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32")),
    "aarch64": ("arm64", ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM")),
}
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class Given:
    """What the cluster adds to the manifest.

    Attributes:
        files: by the name of the Secret or ConfigMap, a folder with its keys.
        environment: over the manifest's, as the ports, and where NATS is.
        fields: of the pod, by their path, as `metadata.name`.
        account: the folder of the service account's token, where one is mounted.
        memory: in place of the manifest's limit, in bytes.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    account: Path | None = None
    memory: int | None = None


def configuration(pod: Mapping[str, Any], image: Mapping[str, Any], given: Given, cgroup: str) -> dict[str, Any]:
    """The runtime's `config.json`; its root file system is the folder `rootfs` beside it.

    Args:
        pod: the spec of the pod.
        image: the image's own configuration, with Env, Cmd and User.
    """
    (container,) = pod["containers"]
    security = {**pod.get("securityContext", {}), **container.get("securityContext", {})}
    user = str(security.get("runAsUser", image["User"])).partition(":")[0]
    # A kubelet refuses a name, since it can't see who that is, and root.
    assert not security.get("runAsNonRoot") or int(user) > 0, user
    capabilities = [] if "ALL" in security.get("capabilities", {}).get("drop", ()) else _CAPABILITIES.split()
    allowed = {kind: [f"CAP_{one}" for one in capabilities] for kind in ("bounding", "effective", "permitted")}
    process = {
        "user": {"uid": int(user), "gid": int(user)},
        "args": [*container.get("command", image.get("Entrypoint") or ()), *container.get("args", ())] or image["Cmd"],
        "env": [f"{name}={value}" for name, value in _environment(container, image, given).items()],
        "cwd": container.get("workingDir") or image.get("WorkingDir") or "/",
        "capabilities": allowed,
        "noNewPrivileges": security.get("allowPrivilegeEscalation") is False,
    }
    linux = {
        "cgroupsPath": f"/{cgroup}",
        "resources": _resources(container, given),
        "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
        "maskedPaths": _MASKED.split(),
        "readonlyPaths": _READ_ONLY.split(),
    }
    if security.get("seccompProfile", {}).get("type") == "RuntimeDefault":
        linux["seccomp"] = seccomp(frozenset(allowed["effective"]))
    return {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": "rootfs", "readonly": security.get("readOnlyRootFilesystem", False)},
        "hostname": given.fields.get("metadata.name", "pod"),
        "mounts": [*_system_mounts(), *_mounts(pod, container, given)],
        "linux": linux,
    }


def _environment(container: Mapping[str, Any], image: Mapping[str, Any], given: Given) -> dict[str, str]:
    found = dict(one.split("=", 1) for one in image["Env"])
    for one in container.get("env", ()):
        if "value" in one:
            found[one["name"]] = one["value"]
        else:
            found[one["name"]] = given.fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
    return {**found, **given.environment}


def _resources(container: Mapping[str, Any], given: Given) -> dict[str, Any]:
    written = container.get("resources", {}).get("limits", {}).get("memory")
    limit = given.memory or (int(written[:-2]) * _UNITS[written[-2:]] if written else None)
    # What is requested of CPUs is a share among pods, and there are none beside it.
    return {"devices": [{"allow": False, "access": "rwm"}], **({"memory": {"limit": limit}} if limit else {})}


def _mounts(pod: Mapping[str, Any], container: Mapping[str, Any], given: Given) -> Iterator[dict[str, Any]]:
    """Volumes of Secrets and ConfigMaps; one that is optional and not there is an empty folder."""
    volumes = {one["name"]: one for one in pod.get("volumes", ())}
    for mount in container.get("volumeMounts", ()):
        for source in _sources(volumes[mount["name"]]):
            name = str(source.get("secretName") or source.get("name"))
            place = given.files.get(name)
            assert place is not None or source.get("optional"), f"a pod waits for {name}"
            if place is not None:
                yield _bind(place, mount["mountPath"])
                break
        else:
            yield {"destination": mount["mountPath"], "type": "tmpfs", "source": "tmpfs", "options": ["ro"]}
    if given.account is not None and pod.get("automountServiceAccountToken", True):
        yield _bind(given.account, ACCOUNT)


def _sources(volume: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for one in volume.get("projected", {}).get("sources", (volume,)):
        yield from (one[kind] for kind in ("secret", "configMap") if kind in one)


def _system_mounts() -> Iterator[dict[str, Any]]:
    yield {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]}
    options = ["nosuid", "strictatime", "mode=755", "size=65536k"]
    yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": options}
    options = ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]
    yield {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": options}
    options = ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]
    yield {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": options}
    yield {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]}
    yield {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "noexec", "ro"]}
    for file in ("/etc/resolv.conf", "/etc/hosts"):
        yield _bind(Path(file).resolve(), file)


def _bind(source: Path, target: str) -> dict[str, Any]:
    return {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "rprivate", "ro"]}


def seccomp(capabilities: frozenset[str]) -> dict[str, Any]:
    """The default profile for a process with these capabilities, in the runtime's form."""
    profile = json.loads(SECCOMP.read_text(encoding="utf-8"))
    here, architectures = _ARCHITECTURES[platform.machine()]
    found = []
    for rule in profile["syscalls"]:
        only, never = rule.get("includes", {}), rule.get("excludes", {})
        # Rules for machines of another kind, and for those with capabilities that this one has not.
        if here not in only.get("arches", [here]) or here in never.get("arches", ()):
            continue
        if not capabilities.issuperset(only.get("caps", ())) or capabilities.intersection(never.get("caps", ())):
            continue
        found.append({key: rule[key] for key in ("names", "action", "args", "errnoRet") if rule.get(key)})
    return {
        "defaultAction": profile["defaultAction"],
        "defaultErrnoRet": profile.get("defaultErrnoRet", 1),
        "architectures": list(architectures),
        "syscalls": found,
    }
