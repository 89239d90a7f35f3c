"""stub"""
from tests.faults.ledger import Row
def line(row: Row) -> str:
    return f"{row.seconds}s sent={row.sent} acc={row.accepted} ref={row.refused} unk={row.unknown} stored={row.stored} del={row.delivered} dead={row.dead} park={row.parked} lost={row.lost} dup={row.duplicated}/{row.in_hands} twice={row.twice} late={row.out_of_time} {row.notes}" + (f"  !! {row.faults()}" if row.faults() else "")
def write(rows, *, long): return ""
