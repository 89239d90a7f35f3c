"""The condition about a right that the operator lacks for a channel's functions: there only while it does. Pure.

The operator may make functions in the system namespace. In another one somebody has to let it (`docs/rbac.md`).
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.conditions import Condition

ROLE = "headrace-operator-functions"
"""The ClusterRole with the rights, which is bound in a namespace."""
_ACCOUNT = "system:serviceaccount:"


def condition(lacking: Mapping[str, str]) -> Condition | None:
    """The condition; None where no right is lacking.

    Args:
        lacking: namespaces, and the operator's account.
    """
    if not lacking:
        return None
    told = "; ".join(sentence(namespace, account) for namespace, account in sorted(lacking.items()))
    return Condition("RightsGranted", False, "RoleBindingMissing", told, informative=True)


def sentence(namespace: str, account: str) -> str:
    """What is to be done, as one line for a shell."""
    return (
        f"the operator may not make or change functions in namespace {namespace}; what runs there goes on as it is. "
        f"Whoever has its rights there may give them: {binding(ROLE, namespace, account)}"
    )


def binding(role: str, namespace: str, account: str) -> str:
    """The line for a shell that gives the operator the rights of a ClusterRole in a namespace."""
    subject = (
        f"--serviceaccount={account.removeprefix(_ACCOUNT)}" if account.startswith(_ACCOUNT) else f"--user={account}"
    )
    return f"kubectl -n {namespace} create rolebinding {role} --clusterrole={role} {subject}"
