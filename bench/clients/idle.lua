-- Every connection makes one request, after all of them are open, and then stays idle.
-- Writes the file named by DONE when the last answer is in.
local connections = tonumber(os.getenv("CONNECTIONS"))
local calls, answers = 0, 0

function delay()
  calls = calls + 1
  if calls <= connections then
    return 8000 + calls
  end
  return 10000000
end

function response()
  answers = answers + 1
  if answers == connections then
    io.open(os.getenv("DONE"), "w"):close()
  end
end
