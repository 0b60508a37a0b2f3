"""Programs that `bcs cp` runs in a task: tar and a line of the shell. Their streams carry a file or folder.

A folder is a tar archive. A copy out of a task begins with one byte, d for a folder or f for a file, and continues as
an archive; exit code 3 says that there is nothing at the path. A relative path begins in the directory of the task.
"""

from __future__ import annotations

from bcs_scheduler.api.sessions.frames import CopyRequest

FOLDER_IN = """\
case "$1" in */) d="$1$2";; *) if test -d "$1"; then d="$1/$2"; else d="$1"; fi;; esac
mkdir -p "$d" && exec tar -xmf - -C "$d"
"""
FILE_IN = """\
case "$1" in */) mkdir -p "$1" && d="$1$2";; *) if test -d "$1"; then d="$1/$2"; else d="$1"; fi;; esac
t="$d.$$.part"; trap 'rm -f "$t"' EXIT; trap 'exit 1' HUP TERM INT
cat > "$t" || exit 1
if test -n "$4" && test "$(($(wc -c < "$t")))" != "$4"; then echo "the transfer was interrupted" >&2; exit 1; fi
chmod "$3" "$t" && mv -f "$t" "$d"
"""
OUT = """\
if test -d "$1"; then printf d; exec tar -cf - -C "$1" .; fi
test -e "$1" || { echo "$1: no such file or folder" >&2; exit 3; }
test -f "$1" || { echo "$1: neither a file nor a folder" >&2; exit 1; }
printf f; exec tar -chf - -C "$(dirname "$1")" "$(basename "$1")"
"""


def program_of(wanted: CopyRequest) -> list[str]:
    """The argument vector."""
    if wanted.action == "fetch":
        return ["sh", "-c", OUT, "sh", wanted.path]
    if wanted.action == "putFolder":
        return ["sh", "-c", FOLDER_IN, "sh", wanted.path, wanted.name]
    size = "" if wanted.size is None else str(wanted.size)
    return ["sh", "-c", FILE_IN, "sh", wanted.path, wanted.name, f"{wanted.mode:o}", size]
