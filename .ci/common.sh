# What the commands in this folder share; they source it from the root of the repository.

say() { printf '\n== %s\n' "$*"; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python; do
    if [ -n "$candidate" ] && "$candidate" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      printf '%s' "$candidate"
      return
    fi
  done
  echo "No Python 3.11 or later is on the path; name one: PYTHON=/path/to/python $0" >&2
  return 1
}

# What the environment must hold: the Python, the place, and the `project` table of pyproject.toml.
fingerprint() {
  "$1" -c 'import json, os, sys, tomllib
with open("pyproject.toml", "rb") as file:
    print(json.dumps([sys.version, os.getcwd(), tomllib.load(file)["project"]], sort_keys=True))'
}
