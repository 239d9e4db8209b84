#!/bin/sh
# Runs the regression test against the handler of the a2a-sdk in an environment; succeeds only if its cases fail there.
# usage: peer.sh ENVIRONMENT TEST_FILE
set -u
environment=$1
test_file=$2
report=$environment/report.txt

SCRIBE_REGRESSION_TARGET=peer "$environment/bin/python" -m pytest --noconftest -c /dev/null --rootdir . -p no:cacheprovider \
    --tb=short "$test_file" > "$report" 2>&1
code=$?
summary=$(tail -n 1 "$report")
failed=$(printf '%s' "$summary" | grep -oE '[0-9]+ failed' | grep -oE '[0-9]+')

# Exit code 1 is also what a broken fixture gives; those are counted as errors.
if [ "$code" -ne 1 ] || [ -z "$failed" ] || printf '%s' "$summary" | grep -q 'error'; then
    tail -n 40 "$report"
    echo "The regression test did not fail as it should on a2a-sdk's own handler (exit code $code)."
    exit 1
fi
echo "As it should, the regression test refuses a2a-sdk's own handler in $failed cases; details are in $report"
