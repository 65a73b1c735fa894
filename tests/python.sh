#!/bin/sh
# Makes sure there is a Python 3.11 or newer that can make a virtual environment: installs Debian's module where it can.
python="$1"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
	echo "genreport needs Python 3.11 or newer; '$python' is not one. Name yours: make PYTHON=/path/to/python3.11 …" >&2
	exit 1
}
"$python" -c 'import venv, ensurepip' 2>/dev/null && exit 0
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null && exit 0
fi
echo "This Python cannot make virtual environments; on Debian: sudo apt-get install python3-venv" >&2
exit 1
