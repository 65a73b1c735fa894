#!/bin/sh
# Makes sure the browser tests have a Chromium: installs Debian's where it can, says what is missing where it cannot.
for name in chromium chromium-browser google-chrome; do
	command -v "$name" >/dev/null 2>&1 && exit 0
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
elif command -v apt-get >/dev/null 2>&1 && command -v sudo >/dev/null 2>&1; then
	sudo apt-get update -qq && sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit 0
fi
echo "The browser tests need Chromium on the PATH as 'chromium'; install it with your system's package manager." >&2
exit 1
