# SPDX-License-Identifier: Apache-2.0
"""A cluster of two nodes on this machine; the one on which a chunk trains is killed.

    python ray_node_dies.py RUN

prints how the command ended that trains RUN there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

QUICK = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
QUICK |= {"health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from ray.cluster_utils import Cluster

    from unbraid.population.run_folder import RunFolder
    from workers.runs import holders, names, until

    run = RunFolder.open(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": QUICK})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    cluster.wait_for_nodes()
    words = ("resume", sys.argv[1], "--on", "ray", "--address", cluster.address, "--device", "cpu")
    driver = subprocess.Popen([sys.executable, "-m", "unbraid", *words])
    until(lambda: names(run) and holders(run), "a checkpoint of a chunk that trains")
    (process, *_) = [one["process"] for one in holders(run).values()]
    raylet = _parent(process)
    (node,) = [one for one in nodes if raylet in _processes(one)]
    cluster.remove_node(node, allow_graceful=False)
    until(lambda: not Path(f"/proc/{process}").exists(), "the task died with its node")
    time.sleep(1)
    cluster.add_node(num_cpus=1)
    print(driver.wait(timeout=240), flush=True)
    cluster.shutdown()


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _processes(node: object) -> set[int]:
    kinds = node.all_processes  # pyright: ignore
    return {info.process.pid for infos in kinds.values() for info in infos}


if __name__ == "__main__":
    main()
    os._exit(0)
