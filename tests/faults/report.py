"""stub"""
from tests.faults.ledger import Row
def line(row: Row) -> str:
    return f"{row.seconds}s {row}" + (f"  !! {row.faults()}" if row.faults() else "")
def write(rows, *, long): return ""
