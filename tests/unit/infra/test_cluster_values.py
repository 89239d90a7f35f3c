"""What `task cluster` decides without a cluster: names, addresses, images, manifests."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from infra.cluster import archive, instance, knative, manifests
from infra.cluster.archive import Image
from infra.cluster.instance import Problem


def test_a_network_is_divided_between_services_pods_and_the_way_to_the_node() -> None:
    addresses = instance.of("main", "10.97.0.0/16").addresses

    assert str(addresses.services) == "10.97.0.0/17"
    assert str(addresses.pods) == "10.97.128.0/18"
    assert str(addresses.link) == "10.97.255.252/30"
    assert (addresses.api, addresses.host, addresses.node) == ("10.97.0.1", "10.97.255.253", "10.97.255.254")


@pytest.mark.parametrize("network", ["10.97.0.0/24", "10.97.0.1/16", "10.97.0.0", "fd00::/16", "here", ""])
def test_other_networks_are_refused_with_what_to_write(network: str) -> None:
    with pytest.raises(Problem, match=r"10\.97\.0\.0/16"):
        instance.of("main", network)


@pytest.mark.parametrize("name", ["a", "main", "of-harsh-2", "twelve-chars"])
def test_a_name_may_be(name: str) -> None:
    assert instance.checked(name) == name
    # Of the interface.
    assert len(instance.interface(name)) <= 15


@pytest.mark.parametrize("name", ["", "Main", "a_b", "-a", "a-", "../etc", "thirteen-long", "a b"])
def test_a_name_may_not_be(name: str) -> None:
    with pytest.raises(Problem, match="at most 12 lower-case letters"):
        instance.checked(name)


def test_an_archive_holds_an_image_as_containerd_reads_it(tmp_path: Path) -> None:
    program, target = tmp_path / "program", tmp_path / "image.tar"
    program.write_bytes(b"#!")
    image = Image("dev.local/program:1", {program: "/ko-app/program"}, ["/ko-app/program"])

    archive.write(image, target)

    with tarfile.open(target) as written:
        blobs = {each.name: written.extractfile(each).read() for each in written}  # type: ignore[union-attr]  # files only
    (described,) = json.loads(blobs["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == "dev.local/program:1"
    manifest = json.loads(blobs[f"blobs/{described['digest'].replace(':', '/')}"])
    config = json.loads(blobs[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert (config["config"]["User"], config["config"]["Entrypoint"]) == ("65532", ["/ko-app/program"])
    (layer,) = manifest["layers"]
    # Not compressed: what is unpacked is what is described.
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    with tarfile.open(fileobj=io.BytesIO(blobs[f"blobs/{layer['digest'].replace(':', '/')}"])) as files:
        assert {each.name: each.mode for each in files} == {"tmp": 0o1777, "ko-app/program": 0o755}


def test_an_archive_is_of_another_key_once_its_program_is_built_anew(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"one")
    before = Image("dev.local/program:1", {program: "/program"}, ["/program"]).key
    program.write_bytes(b"other")

    assert Image("dev.local/program:1", {program: "/program"}, ["/program"]).key != before


def test_a_deployment_for_a_small_node_asks_for_little_and_keeps_its_limits() -> None:
    container = {"name": "activator", "resources": {"requests": {"cpu": "300m"}, "limits": {"memory": "600Mi"}}}
    deployment = {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [container]}}}}

    (made,) = manifests.small(deployment)["spec"]["template"]["spec"]["containers"]

    assert made["resources"] == {"requests": {"cpu": "25m", "memory": "20Mi"}, "limits": {"memory": "600Mi"}}


def test_a_config_map_gets_what_is_wanted_beside_what_it_has() -> None:
    network = {"kind": "ConfigMap", "metadata": {"name": "config-network"}, "data": {"_example": "…"}}
    other = {"kind": "ConfigMap", "metadata": {"name": "config-logging"}}
    wanted = {"config-network": {"ingress-class": "ours"}}

    assert manifests.with_data(network, wanted)["data"] == {"_example": "…", "ingress-class": "ours"}
    assert manifests.with_data(other, wanted) == {"kind": "ConfigMap", "metadata": {"name": "config-logging"}}


def test_each_program_of_knative_has_the_image_that_its_yaml_asks_for() -> None:
    assert knative.IMAGES["ko://knative.dev/serving/cmd/queue"] == "dev.local/serving-queue:1"
    assert knative.IMAGES["ko://knative.dev/eventing/cmd/broker/filter"] == "dev.local/eventing-broker-filter:1"
    assert len(set(knative.IMAGES.values())) == 10
