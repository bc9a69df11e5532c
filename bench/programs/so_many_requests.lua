-- SPDX-License-Identifier: Apache-2.0
-- Stops wrk after a number of requests, so that every run asks for the same work; wrk itself ends when its time is up.
local left = 3000
function response()
    left = left - 1
    if left == 0 then wrk.thread:stop() end
end
