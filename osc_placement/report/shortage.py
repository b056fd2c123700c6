# SPDX-License-Identifier: Apache-2.0
"""The reason why no provider can give an amount of a class, and how much is missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from osc_placement.model import Inventory
from osc_placement.report.cloud import Node, Stock
from osc_placement.terminal.escape import printable


def can_give(stock: Stock | None, amount: int) -> bool:
    """Return whether one allocation of this amount is possible now, by the rule of the server."""
    return (
        stock is not None
        and stock.inventory.fits_unit(amount)
        and stock.inventory.has_room(amount, stock.used)
    )


def describe_shortage(nodes: Iterable[Node], resource_class: str, amount: int) -> str:
    """Describe what the closest of the providers lacks; empty if one of them can give the amount."""
    offers = [(node, node.stocks[resource_class]) for node in nodes if resource_class in node.stocks]
    if any(can_give(stock, amount) for _, stock in offers):
        return ""
    if not offers:
        return f"no {resource_class}"
    in_units = [(node, stock) for node, stock in offers if stock.inventory.fits_unit(amount)]
    if not in_units:
        node, stock = max(offers, key=lambda offer: offer[1].inventory.max_unit)
        where = _where(node, len(offers))
        return f"{resource_class}: {amount} asked, {_describe_unit(stock.inventory, amount)}{where}"
    node, stock = max(in_units, key=lambda offer: offer[1].free)
    short = amount - (stock.capacity - stock.used)
    where = _where(node, len(in_units))
    return f"{resource_class}: {amount} asked, {stock.free} free, {short} short{where}"


def _where(node: Node, others: int) -> str:
    return f" on {printable(node.name)}, the closest of {others}" if others > 1 else ""


def _describe_unit(inventory: Inventory, amount: int) -> str:
    if amount < inventory.min_unit:
        return f"min_unit {inventory.min_unit}"
    if amount > inventory.max_unit:
        return f"max_unit {inventory.max_unit}, {amount - inventory.max_unit} too much"
    return f"step_size {inventory.step_size}"
