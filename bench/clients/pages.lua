-- Asks for 0.html, 1.html, ... of the URL's folder in turn: COUNT pages, then from the first again.
local count = tonumber(os.getenv("COUNT"))
local requests, last = {}, 0

function init()
  for i = 1, count do
    requests[i] = wrk.format("GET", wrk.path .. (i - 1) .. ".html")
  end
end

function request()
  last = last % count + 1
  return requests[last]
end
