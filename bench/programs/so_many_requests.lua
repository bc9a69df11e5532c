-- Ends wrk after a number of requests, so that every run asks for the same work.
local left = 20000
function response()
    left = left - 1
    if left == 0 then wrk.thread:stop() end
end
