# SPDX-License-Identifier: Apache-2.0
# A site's application server in small: four threads take requests from a queue, read JSON, render ERB templates and a little Markdown, cache what
# they made and log it. A burst of requests, an idle time, and a smaller burst.
require "erb"
require "json"
require "digest"
require "set"
require "strscan"
require "stringio"

WORDS = %w[amber bramble clover drift echo fern gale heath inlet juniper knoll lichen moss nettle otter pike reed sedge thicket vale].freeze
Post = Struct.new(:id, :title, :tags, :body, :comments)
PAGE = ERB.new(<<~HTML, trim_mode: "-")
  <html><head><title><%= ERB::Util.h(post.title) %></title></head><body>
  <%= Markdown.new(post.body).html %>
  <ul><% post.tags.each do |tag| -%>
  <li><a href="/tag/<%= ERB::Util.u(tag) %>"><%= tag %></a></li>
  <% end -%></ul>
  <% post.comments.each_with_index do |comment, i| -%>
  <p id="c<%= i %>"><b><%= comment["who"] %></b>: <%= ERB::Util.h(comment["text"]) %></p>
  <% end -%></body></html>
HTML

# Headings, paragraphs, emphasis and lists.
class Markdown
  def initialize(text) = @scanner = StringScanner.new(text)

  def html
    out = +""
    until @scanner.eos?
      if @scanner.scan(/# (.*)\n/) then out << "<h2>#{inline(@scanner[1])}</h2>\n"
      elsif @scanner.scan(/((?:\* .*\n)+)/) then out << "<ul>#{@scanner[1].lines.map { |l| "<li>#{inline(l[2..].chomp)}</li>" }.join}</ul>\n"
      elsif @scanner.scan(/(.+)\n/) then out << "<p>#{inline(@scanner[1])}</p>\n"
      else @scanner.getch
      end
    end
    out
  end

  def inline(text) = ERB::Util.h(text).gsub(/\*(\w+)\*/, '<em>\1</em>').gsub(/_(\w+)_/) { "<i>#{$1.upcase}</i>" }
end

# All that the threads share.
class Site
  def initialize
    @lock, @posts, @cache, @log = Mutex.new, {}, {}, StringIO.new
  end

  def sentence(random, count) = Array.new(count) { random.rand(9).zero? ? "*#{WORDS.sample(random: random)}*" : WORDS.sample(random: random) }.join(" ")

  def make_post(id, random)
    body = Array.new(random.rand(2..9)) { |i|
      case i % 3
      when 0 then "# #{sentence(random, 4)}\n"
      when 1 then "#{sentence(random, random.rand(10..70))}.\n"
      else Array.new(random.rand(2..6)) { "* #{sentence(random, 5)}\n" }.join
      end
    }.join
    comments = Array.new(random.rand(0..8)) { {who: WORDS.sample(random: random), text: "<#{sentence(random, random.rand(3..25))}>"} }
    sent = JSON.generate({id: id, title: sentence(random, 3), tags: WORDS.sample(3, random: random), body: body, comments: comments})
    read = JSON.parse(sent)
    Post.new(*read.values_at("id", "title", "tags", "body", "comments"))
  end

  def post(id, random) = @lock.synchronize { @posts[id] } || make_post(id, random).tap { |made| @lock.synchronize { @posts[id] = made } }

  def answer(id, random)
    post = post(id, random)
    key = Digest::SHA1.hexdigest("#{id}#{post.comments.size}")
    cached = @lock.synchronize { @cache[key] }
    return cached if cached

    page = PAGE.result_with_hash(post: post)
    @lock.synchronize do
      @cache[key] = page
      @cache.shift while @cache.size > 300
      @log.puts "#{id} #{page.bytesize} #{post.tags.join(",")}"
    end
    post.comments << {"who" => "late", "text" => sentence(random, 12)} if random.rand(4).zero?
    page
  end

  def search(random)
    wanted = Set.new(WORDS.sample(2, random: random))
    posts = @lock.synchronize { @posts.values.sample(25, random: random) }
    found = posts.select { |post| wanted.subset?(post.body.scan(/\w+/).to_set) }
    JSON.pretty_generate(found.map { |post| {title: post.title.split.map(&:capitalize).join(" "), size: post.body.size} })
  end

  def burst(requests)
    queue = Queue.new
    workers = Array.new(4) do |number|
      Thread.new do
        random, size = Random.new(number), 0
        while (id = queue.pop)
          size += (id % 40 == 7 ? search(random) : answer(id, random)).bytesize
        end
        size
      end
    end
    random = Random.new(requests)
    requests.times { queue << (random.rand**2 * 900).to_i }
    workers.size.times { queue << nil }
    puts workers.sum(&:value)
  end

  def forget = @lock.synchronize { @posts.clear; @cache.clear; @log.truncate(0); @log.rewind }
end

site = Site.new
site.burst(760)
sleep 5
site.forget
GC.start
sleep 5
site.burst(230)
sleep 1
