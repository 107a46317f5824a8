#!/bin/sh
# A service by curl: what is in it, which files and rows a query has to read, and why.
#
#   make demo PORT=8080      in one terminal
#   sh examples/curl.sh      in another; needs jq
#
# Lines with "# >" are what the command above them prints.
set -eu
service=${URL:-http://localhost:8080}
demo=$service/v1/main/databases/demo

# --- What is there? ---------------------------------------------------------------------------------------

curl -s "$demo/tables" | jq -r '.tables[]'
# > sessions
# > users
# > visits

# Options of the engine say which columns have an index.
curl -s "$demo/tables/sessions" |
  jq -r '.options | to_entries[] | select(.key | endswith(".columns")) | "\(.key) = \(.value)"' | sort
# > file-index.bitmap.columns = grade,owner,logged,valid,day,channel
# > file-index.bloom-filter.columns = session_no,owner,channel
# > file-index.bsi.columns = fee,day,channel
# > file-index.range-bitmap.columns = rank_no,temp,channel

# --- Which files and rows? --------------------------------------------------------------------------------

# A POST with a condition, as it would stand after WHERE.
plan=$(curl -s "$demo/tables/sessions/plan" -d '{"filter": "fee = 58.43", "selection": "positions"}')
echo "$plan" | jq -c '.summary | [.files_kept, .files_total, .rows_selected, .rows_total]'
# > [3,10,8,1113]

# Positions of rows in each file, from 0 on. `residual` false: these rows match for sure, no need to look again.
echo "$plan" | jq -c '.files[] | [.file_name[0:13], .selection, .residual]'
# > ["data-a5ef52ca",[6,87,125],false]
# > ["data-59c0f0da",[21,32,81],false]
# > ["data-0c045eb1",[11,37],false]

# --- Why? -------------------------------------------------------------------------------------------------

curl -s "$demo/tables/sessions/plan" -d '{"filter": "fee = 58.43", "explain": true}' |
  jq -r '.skipped_files[0].explain[] | select(.index) | "\(.index): \(.outcome)"'
# > min_max: unknown
# > bsi: skip

# --- Deleted rows, and buckets of keys --------------------------------------------------------------------

curl -s "$demo/tables/visits/deletions" -d '{"encoding": "count"}' | jq '[.deletions[].cardinality] | add'
# > 224

# null is a key that the table does not have yet.
curl -s "$demo/tables/users/buckets/lookup" \
  -d '{"partition": {"dte": "2024-01-01"}, "keys": [{"uid": 999999967}, {"uid": 1000014967}]}' |
  jq -c '[.buckets[].bucket]'
# > [0,null]

# --- Counts without data, and what changed ----------------------------------------------------------------

curl -s "$demo/tables/sessions/aggregate" -d '{"group_by": ["grade"], "filter": "fee > 50", "top": 3}' |
  jq -c '.groups[] | [.key.grade, .values[0].value]'
# > [2667,53]
# > [2645,47]
# > [2647,29]

curl -s "$demo/tables/sessions/changes" -d '{"from_snapshot_id": 2, "snapshot_id": 3}' | jq -c '[(.added | length), (.removed | length)]'
# > [3,0]

# --- Asking again -----------------------------------------------------------------------------------------

# An answer has an entity tag: as long as the table and the question are the same, nothing is sent twice.
question='{"filter": "fee = 58.43"}'
tag=$(curl -s -o /dev/null -w '%header{etag}' "$demo/tables/sessions/plan" -d "$question")
curl -s -o /dev/null -w '%{http_code}\n' -H "If-None-Match: $tag" "$demo/tables/sessions/plan" -d "$question"
# > 304
