-- The table `wrk` as scripts know it.  Its fields about the request of the command line, and what needs the
-- system (lookup, connect, time_us, thread) are set by the program.

local function has_host(headers)
   for name in pairs(headers) do
      if type(name) == "string" and name:lower() == "host" then return true end
   end
   return false
end

local function authority()
   local host = wrk.host:find(":", 1, true) and "[" .. wrk.host .. "]" or wrk.host
   return wrk.port and host .. ":" .. wrk.port or host
end

-- The text of one request; what is left out is taken from the table `wrk`.
function wrk.format(method, path, headers, body)
   headers, body = headers or wrk.headers, body or wrk.body
   local lines = { (method or wrk.method) .. " " .. (path or wrk.path) .. " HTTP/1.1" }
   if not has_host(headers) then
      lines[2] = "Host: " .. (wrk.headers["Host"] or authority())
   end
   for name, value in pairs(headers) do
      if name ~= "Content-Length" then
         lines[#lines + 1] = name .. ": " .. tostring(value)
      end
   end
   if body then
      lines[#lines + 1] = "Content-Length: " .. #tostring(body)
   end
   lines[#lines + 1] = ""
   lines[#lines + 1] = body or ""
   return table.concat(lines, "\r\n")
end

function wrk.setup(thread)
   if type(setup) == "function" then setup(thread) end
end

function wrk.init(args)
   if not has_host(wrk.headers) then
      wrk.headers["Host"] = authority()
   end
   if type(init) == "function" then init(args) end
   local text = wrk.format()
   function wrk.request() return text end
end

-- What the program calls; the script's own functions are looked up each time, as they may be replaced.
return {
   setup = function(thread) wrk.setup(thread) end,
   init = function(args) wrk.init(args) end,
   request = function()
      if type(request) == "function" then return request() end
      return wrk.request()
   end,
   delay = function() return delay() end,
   response = function(status, headers, body) return response(status, headers, body) end,
   done = function(summary, latency, requests) return done(summary, latency, requests) end,
   defines = function(name) return type(_G[name]) == "function" end,
}
