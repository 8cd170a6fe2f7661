# Do server-sent events and polls give the same messages, positions and acks as a WebSocket?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE due (id int PRIMARY KEY, owner text);
    CREATE TABLE grp (id int PRIMARY KEY, team text);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT clairon.watch('due', 'USER', 'owner', ack_required => true);
    SELECT clairon.watch('grp', 'TEAM', 'team')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store,
    conf => { 'gate.ping' => '400ms', 'gate.drain' => '1s', 'feed.topic_prefix' => 'p' });
my $second = Clairon::Test::relay(undef, $store, roles => 'gate');
my $next   = 0;

sub insert
{
    my ($table, $owner, $count) = @_;
    my $first = $next + 1;
    $next += $count // 1;
    $pg->safe_psql('postgres', "INSERT INTO $table SELECT i, '$owner' FROM generate_series($first, $next) i");
    return ($first .. $next);
}

sub bearer { return (Authorization => 'Bearer ' . token(sub => @_)) }
sub row { return $_[0]{payload}{after}{id} }

sub http
{
    my ($method, $path, %headers) = @_;
    my $to = delete $headers{':relay'} // $relay;
    return Clairon::Test::RawSocket->new($to)->request($method, $path, %headers);
}

# A poll: { status, pos, lines, notes }.
sub poll
{
    my ($user, %query) = @_;
    my %headers = map { $_ => delete $query{$_} } grep { /^[:A-Z]/ } keys %query;
    my $path = '/v1/poll' . (%query ? '?' . join '&', map { "$_=$query{$_}" } sort keys %query : '');
    my $answer = http(GET => $path, bearer($user), %headers);
    my @lines  = map { JSON::decode_json($_) } split /\n/, $answer->{body} // '';
    return {
        %$answer,
        pos   => $answer->{headers}{'clairon-pos'},
        messages => \@lines,
        rows  => join(' ', map { row($_->{n}) } grep { $_->{t} eq 'msg' } @lines),
        ids   => [ map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } @lines ],
    };
}

sub ack { my ($user, @ids) = @_; return http(POST => '/v1/ack', bearer($user), ':body' => { ids => \@ids }) }

# SSE.
my $sse = Clairon::Test::EventStream->open($relay, 'u1');
is($sse->{status}, 200, 'SSE begins');
is($sse->{headers}{'content-type'}, 'text/event-stream', 'as what it is');
my $connected = $sse->wait_message('connected');
is($connected->{user}, 'u1', 'the first line is connected');
is($sse->{id}, $connected->{pos}, 'its position is the event\'s id');
like($sse->{retry}, qr/^\d+$/, 'a retry time is told');
my $ws = $relay->client('u1');
my ($id) = insert(t => 'u1');
my $line = $sse->wait_message('msg');
$ws->wait_notifications(1);
is_deeply($line, $ws->wait_for('msg'), 'the same line as on a WebSocket, position and all');
is($sse->{id}, $line->{pos}, 'which is the event\'s id');
insert(t => 'u2');
insert(grp => 'blue');
my $member = Clairon::Test::EventStream->open($relay, 'u3', ':claims' => { groups => { TEAM => ['red'] } });
$member->wait_message('connected');
my ($red) = insert(grp => 'red');
is(row($member->next_notification), $red, 'the token\'s groups count');
my $before = $sse->{comments};
$sse->wait_message('comment');
cmp_ok($sse->{comments}, '>', $before, 'comments keep it alive');
($id) = insert(t => 'u1');
is(row($sse->next_notification), $id, 'nothing of anybody else came between');
my $pos = $sse->{id};
$_->disconnect for $sse, $member;
wait_until('the relay sees the end', sub { $relay->metric('clairon_gate_streams') == 0 });
my @missed = insert(t => 'u1', 3);
my $back = Clairon::Test::EventStream->open($second, 'u1', 'Last-Event-ID' => $pos);
is($back->wait_message('connected')->{resumed}, JSON::true, 'Last-Event-ID resumes, on another relay too');
is_deeply([ map { row($back->next_notification) } 1 .. 3 ], \@missed, 'with what was missed');
($id) = insert(t => 'u1');
is(row($back->next_notification), $id, 'and goes on live');
my $from_sse = $relay->client('u1', pos => $pos);
$from_sse->wait_notifications(4);
is_deeply([ map { row($_) } $from_sse->notifications ], [ @missed, $id ], 'a WebSocket takes that position too');
my $gone = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => 'nonsense.1-1');
is($gone->wait_message('connected')->{resumed}, JSON::false, 'a position nobody knows is not resumed');
is($gone->wait_message('gap')->{why}, 'epoch', 'and told as a gap');
$gone->disconnect;
my $lost = poll('u1', pos => 'nonsense.1-1', wait => 5);
is(join(' ', map { "$_->{t} $_->{why}" } @{ $lost->{messages} }), 'gap epoch', 'a poll is told at once');
($id) = insert(t => 'u1');
is(poll('u1', pos => $lost->{pos}, wait => 5)->{rows}, $id, 'and the next one goes on from there');
my $topical = Clairon::Test::EventStream->open($relay, 'u1', ':path' => '/v1/sse?topics=p.due,p.never');
$topical->wait_message('connected');
insert(t => 'u1');
my ($due) = insert(due => 'u1');
my $note = $topical->next_notification;
is(row($note), $due, 'topics of the query narrow');

# Acks over HTTP.
is(ack('u1', $note->{metadata}{id})->{status}, 204, 'an ack over HTTP is taken');
wait_until('all are acked', sub { $store->pending == 0 });
is_deeply($topical->wait_message('acked')->{ids}, [ $note->{metadata}{id} ], 'the user\'s connections are told');
is(ack('u1', $note->{metadata}{id})->{status}, 204, 'an ack may be repeated');
$_->disconnect for $topical, $back;
$_->close for $ws, $from_sse;
for my $case (
    [ 'no body', 400, '' ], [ 'no JSON', 400, 'ids' ], [ 'no ids', 400, '{}' ], [ 'an id that is none', 400, '{"ids":["x"]}' ],
    [ 'another field', 400, "{\"ids\":[\"$note->{metadata}{id}\"],\"x\":1}" ], [ 'an array', 400, '[]' ])
{
    my ($name, $status, $body) = @$case;
    my $answer = http(POST => '/v1/ack', bearer('u1'), ':body' => $body);
    is($answer->{status}, $status, "$name: refused");
    is(JSON::decode_json($answer->{body})->{code}, 107, "$name: with err 107's code");
}
is(http(POST => '/v1/ack', bearer('u1'))->{status}, 411, 'a body needs its length');
is(http(POST => '/v1/ticket', bearer('u1'))->{status}, 200, 'what needs no body needs no length of one, as curl -X POST sends it');
is(http(POST => '/v1/ticket')->{status}, 401, 'but a token');
is(http(POST => '/v1/ack', bearer('u1'), 'Transfer-Encoding' => 'chunked', ':body' => "0\r\n\r\n")->{status}, 400, 'chunks and a length are not read');
is(http(POST => '/v1/ack', bearer('u1'), 'Content-Length' => 2_000_000)->{status}, 413, 'a large body is refused by its length');
isnt(http(POST => '/v1/ack', bearer('u1'), 'Content-Length' => '1e3')->{status}, 204, 'a length is a number');

# Polls.
my $empty = poll('p1', wait => 0);
is($empty->{status}, 204, 'a poll with nothing to give is answered 204');
ok(defined $empty->{pos}, 'with the position to go on from');
my @rows = insert(t => 'p1', 5);
my $got = poll('p1', pos => $empty->{pos}, wait => 20);
is($got->{status}, 200, 'a poll gives what came');
is($got->{headers}{'content-type'}, 'application/x-ndjson', 'as lines of JSON');
my $rows = $got->{rows};
$rows .= " $got->{rows}" while split(/ /, $rows) < 5 and $got = poll('p1', pos => $got->{pos}, wait => 20);
is($rows, "@rows", 'in order, each once');
is(poll('p1', pos => $got->{pos}, wait => 0)->{status}, 204, 'and then nothing');
@rows = insert(t => 'p1', 10);
wait_until('they are read', sub { $store->entries >= $next });
my @all;
my $at = $got->{pos};
for (1 .. 20)
{
    my $part = poll('p1', pos => $at, max => 3, wait => 10, ':relay' => $_ % 2 ? $second : $relay);
    my @part = split / /, $part->{rows};
    cmp_ok(scalar(@part), '<=', 3, "no more than asked for: $part->{rows}");
    push @all, @part;
    $at = $part->{pos};
    last if @all >= 10;
}
is("@all", "@rows", 'pages of three, from two relays, give all of them once');
my $socket = $relay->client('p1', pos => $empty->{pos});
$socket->wait_notifications(15);
is(scalar($socket->notifications), 15, 'a WebSocket takes a poll\'s position');
$socket->close;

is(poll('p1', pos => '', wait => 0)->{status}, 204, 'an empty position is none');

# Who does not wait gets an answer before the next walk past all connections, which a token that ends is told by.
my $is_prompt = 0;
for (1 .. 20)
{
    my $ending = Clairon::Test::RawSocket->user($relay, 'ending', exp => int(time()) + 1);
    poll('p8', wait => 0);
    $ending->send_json({ t => 'ping' });
    $is_prompt ||= $ending->next_message->{t} eq 'pong';
    $ending->disconnect;
    last if $is_prompt;
}
ok($is_prompt, 'a poll that does not wait is answered at once');

# A poll that waits.
my $waiting = Clairon::Test::RawSocket->new($relay);
$waiting->write("GET /v1/poll?pos=$at&wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'p1') . "\r\n\r\n");
wait_until('it is there', sub { $relay->metric('clairon_gate_streams') == 1 });
insert(t => 'p2');
($id) = insert(t => 'p1');
my $answer = $waiting->read_response;
is($answer->{status}, 200, 'a poll that waits is answered when something comes');
is(row(JSON::decode_json((split /\n/, $answer->{body})[0])->{n}), $id, 'with that');
$at = $answer->{headers}{'clairon-pos'};

# What needs an ack: shown once while its time runs, also when more waits than fits.
my @due = insert(due => 'p1', 8);
wait_until('they are pending', sub { $store->pending == 8 });
my (%times, @ids);
for (1 .. 10)
{
    my $part = poll('p1', pos => $at, max => 3, wait => 1);
    last if $part->{status} == 204;
    $times{$_}++ for split / /, $part->{rows};
    push @ids, @{ $part->{ids} };
    $at = $part->{pos};
}
is_deeply(\%times, { map { $_ => 1 } @due }, 'each is shown once, though none was acked');
my $first = poll('p1', max => 100, wait => 5);
is(join(' ', sort { $a <=> $b } split / /, $first->{rows}), "@due", 'a poll without a position shows all that is pending');
is(ack('p1', @ids)->{status}, 204, 'they are acked');
wait_until('all are acked', sub { $store->pending == 0 });
is(poll('p1', wait => 0)->{status}, 204, 'nothing is left');
my @many = insert(due => 'p4', 150);
wait_until('they are pending', sub { $store->pending == 150 });
my ($seen, $place) = ({}, undef);
for (1 .. 10)
{
    my $part = poll('p4', wait => 1, defined $place ? (pos => $place) : ());
    last if $part->{status} == 204;
    $seen->{$_}++ for split / /, $part->{rows};
    $place = $part->{pos};
}
is_deeply($seen, { map { $_ => 1 } @many }, 'more than a window is shown poll by poll, unacked');

my $narrow = poll('p1', pos => $empty->{pos}, topics => 'p.nothing,p.never*', wait => 0);
is($narrow->{status}, 204, 'topics narrow a poll');
is(poll('p1', pos => $empty->{pos}, topics => 'p.t', wait => 5)->{status}, 200, 'to what it asks for');
is(poll('p1', topics => $_)->{status}, 400, "topics=$_ are refused") for '', 'a,,b', 'a*b', 'x' x 256;
is(poll('p1', wait => $_)->{status}, 400, "wait=$_ is refused") for 'x', '-1', '';
is(poll('p1', max => $_)->{status}, 400, "max=$_ is refused") for '0', '-1';

# Who may not.
for my $path ('/v1/sse', '/v1/poll')
{
    is(http(GET => $path)->{status}, 401, "$path: no token");
    like(http(GET => $path)->{headers}{'www-authenticate'}, qr/^Bearer/, "$path: and told what is wanted");
    my $expired = http(GET => $path, Authorization => 'Bearer ' . token(sub => 'u1', exp => 1));
    is($expired->{status}, 401, "$path: an expired token");
    is(JSON::decode_json($expired->{body})->{code}, 109, "$path: told as such");
    is(http(GET => $path, Authorization => 'Bearer ' . token(sub => 'u1', secret => 'x' x 32))->{status}, 401, "$path: a forged one");
    is(http(GET => "$path?token=" . token(sub => 'u1'))->{status}, 401, "$path: a token in the URL is none");
    is(http(POST => $path, 'Content-Length' => 0)->{status}, 405, "$path: GET alone");
}
is(http(POST => '/v1/ack', ':body' => '{"ids":[]}')->{status}, 401, '/v1/ack: no token');
is(http(GET => '/v1/ack', bearer('u1'))->{status}, 405, '/v1/ack: POST alone');

# Tickets.
sub ticket
{
    my ($user, %claims) = @_;
    my $made = http(POST => '/v1/ticket', bearer($user, %claims), 'Content-Length' => 0);
    return $made->{status} == 200 ? JSON::decode_json($made->{body}) : $made->{status};
}
my $asked  = int time();
my $ticket = ticket('t1', groups => { TEAM => ['green'] });
like($ticket->{ticket}, qr/^[0-9a-f]{32}$/, 'a ticket');
ok($ticket->{exp} >= $asked + 30 && $ticket->{exp} <= time() + 31, 'that lasts half a minute');
my $ttl = $store->execute('TTL', $store->key("ticket:$ticket->{ticket}"));
ok($ttl > 0 && $ttl <= 30, 'in the store too');
my $opened = Clairon::Test::EventStream->open($second, undef, ':path' => "/v1/sse?ticket=$ticket->{ticket}");
is($opened->wait_message('connected')->{user}, 't1', 'opens SSE, on another relay');
my ($green) = insert(grp => 'green');
is(row($opened->next_notification), $green, 'with the token\'s groups');
$opened->disconnect;
is(Clairon::Test::EventStream->open($relay, undef, ':path' => "/v1/sse?ticket=$ticket->{ticket}")->{status}, 401, 'once');
is(Clairon::Test::EventStream->open($relay, undef, ':path' => "/v1/sse?ticket=$_")->{status}, 401, "not: $_")
  for 'f' x 32, 'x', '', '-', '../stream';
$ticket = ticket('t2');
sub ws_with
{
    my ($code, %connect) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, ':path' => "/v1/ws?ticket=$code");
    $raw->send_json({ t => 'connect', r => 1, %connect });
    my $said = $raw->next_message;
    return $said->{t} eq 'connected' ? $said->{user} : $raw->read_to_end->{code};
}
is(ws_with($ticket->{ticket}), 't2', 'a ticket opens a WebSocket');
is(ws_with($ticket->{ticket}), 4001, 'once');
is(http(POST => '/v1/ticket', 'Content-Length' => 0)->{status}, 401, 'no ticket without a token');

# Of a token that ended before it was used.
my $ends = time() + 2;
$ticket = ticket('t2', exp => $ends);
wait_until('the token ends', sub { time() > $ends });
is(http(GET => "/v1/sse?ticket=$ticket->{ticket}")->{json}{code}, 109, 'a ticket of it is told so');

# A ticket and a token: whose connection it is would be a guess.
$ticket = ticket('t3');
my %both = (':path' => "/v1/ws?ticket=$ticket->{ticket}", bearer('t4'));
is(Clairon::Test::RawSocket->open($relay, %both)->{response}{status}, 400, 'a ticket and a header with a token: no upgrade');
is(Clairon::Test::EventStream->open($relay, 't4', ':path' => "/v1/sse?ticket=$ticket->{ticket}")->{status}, 400, 'nor SSE');
my $twice = Clairon::Test::RawSocket->open($relay, ':path' => "/v1/ws?ticket=$ticket->{ticket}");
$twice->send_json({ t => 'connect', r => 1, token => token(sub => 't4') });
is($twice->read_to_end->{code}, 4001, 'a ticket, and a token in connect: no session');
is(ws_with($ticket->{ticket}), 't3', 'the ticket is unused');
is(http(GET => "/v1/poll?$_", bearer('u1'))->{status}, 400, "an argument behind an empty one is read: $_") for '&wait=x', 'wait=0&&max=x', 'wait=0&=&max=x';
is(http(GET => '/v1/poll?ticket=' . ticket('t2')->{ticket})->{status}, 401, 'a poll takes no ticket');
isnt($store->execute('GET', $store->key('ticket:' . ticket('t2')->{ticket})), undef, 'the store has what it stands for');

# Pages of other origins.
my $same = http(OPTIONS => '/v1/ack', Origin => "http://127.0.0.1:1");
is($same->{status}, 204, 'a page of the same host may ask');
is($same->{headers}{'access-control-allow-origin'}, 'http://127.0.0.1:1', 'and is told so');
like($same->{headers}{'access-control-allow-headers'}, qr/authorization/, 'also that it may send its token');
is(http(OPTIONS => '/v1/ack', Origin => 'http://evil.example')->{status}, 403, 'others may not');
my $foreign = http(GET => '/v1/poll?wait=0', bearer('u1'), Origin => 'http://evil.example');
is($foreign->{status}, 403, 'not even with a token');
is($foreign->{headers}{'access-control-allow-origin'}, undef, 'nor read the answer');
is(http(GET => '/v1/poll?wait=0', bearer('u1'), Origin => 'http://127.0.0.1:1')->{headers}{'access-control-allow-origin'},
    'http://127.0.0.1:1', 'a page that may reads the answer');

# Ends.
my $short = Clairon::Test::EventStream->open($relay, 'u1', ':claims' => { exp => int(time()) - 3 });
is($short->wait_message('connected')->{t}, 'connected', 'a token within the leeway');
my @last = $short->wait_end;
is(scalar(grep { $_->{t} eq 'expiring' } @last), 1, 'is told of once before its end');
my ($bye) = grep { $_->{t} eq 'bye' } @last;
is($bye->{code}, 4100, 'its end is the end of the stream');
my $drained = Clairon::Test::EventStream->open($relay, 'u1');
$drained->wait_message('connected');
my $polling = Clairon::Test::RawSocket->new($relay);
$polling->write("GET /v1/poll?wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'p9') . "\r\n\r\n");
wait_until('both are there', sub { $relay->metric('clairon_gate_streams') >= 2 });
kill TERM => $relay->pid;
($bye) = grep { $_->{t} eq 'bye' } $drained->wait_end;
is($bye->{code}, 4201, 'a drain says bye on SSE');
ok(defined $bye->{in}, 'and when to come back');
is($polling->read_response->{status}, 503, 'and 503 to a poll that waits');
is($relay->wait_end(10), 0, 'the relay ends in good order');

# The store away.
$store->stop;
wait_until('the relay sees it', sub { ($second->get('/readyz'))[0] == 503 });
is(http(GET => '/v1/poll?wait=0', bearer('u1'), ':relay' => $second)->{status}, 503, 'a poll without the store is told so');
is(http(POST => '/v1/ack', bearer('u1'), ':relay' => $second, ':body' => "{\"ids\":[\"$ids[0]\"]}")->{status}, 503, 'an ack too');
is(http(POST => '/v1/ticket', bearer('u1'), ':relay' => $second, 'Content-Length' => 0)->{status}, 503, 'a ticket too');
is($second->stop, 0, 'SIGTERM ends the other relay in good order');

done_testing();
