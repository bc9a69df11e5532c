# SPDX-License-Identifier: Apache-2.0
# A web server in Ruby (WEBrick), a thread for each connection: a cache of the pages that were asked for last, made from ERB.
#
# Usage: page_server.rb PORT    serves until SIGTERM
require "webrick"
require "erb"
require "json"
require "zlib"

KEPT = 1_000
PAGE = ERB.new(<<~HTML)
  <h1><%= title %></h1>
  <% rows.each do |row| %><p id="<%= row["id"] %>"><%= row["text"].split(" ").map(&:capitalize).join(", ") %></p>
  <% end %>
HTML

$lock = Mutex.new
$pages = {}

def made(title, seed)
  draw = Random.new(seed)
  rows = JSON.parse(JSON.generate((1..draw.rand(5..120)).map { |id| { id: id, text: (1..draw.rand(2..30)).map { draw.bytes(4).unpack1("H*") }.join(" ") } }))
  PAGE.result_with_hash(title: title, rows: rows)
end

server = WEBrick::HTTPServer.new(Port: ARGV[0].to_i, BindAddress: "127.0.0.1", AccessLog: [], Logger: WEBrick::Log.new(File::NULL))
server.mount_proc("/") do |request, response|
  page = $lock.synchronize { $pages.delete(request.path) } || made(request.path, Zlib.crc32(request.path))
  $lock.synchronize do
    $pages[request.path] = page
    $pages.shift while $pages.size > KEPT
  end
  response.body = page
end
trap("TERM") { server.shutdown }
server.start
