# Tests that SSE and polls have the same notifications, cursors and acks as a WebSocket.
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
    conf => { 'gate.ping' => '400ms', 'gate.drain' => '1s', 'feed.topic_prefix' => 'p', 'delivery.ack_timeout' => '1h' });
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

# Polls; returns { status, pos, messages, rows, ids }.
sub poll
{
    my ($user, %query) = @_;
    my %headers = map { $_ => delete $query{$_} } grep { /^[:A-Z]/ } keys %query;
    my $path = '/v1/poll' . (%query ? '?' . join '&', map { "$_=$query{$_}" } sort keys %query : '');
    my $response = http(GET => $path, bearer($user), %headers);
    my @lines = map { JSON::decode_json($_) } split /\n/, $response->{body} // '';
    return {
        %$response,
        pos   => $response->{headers}{'clairon-pos'},
        messages => \@lines,
        rows  => join(' ', map { row($_->{n}) } grep { $_->{t} eq 'msg' } @lines),
        ids   => [ map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } @lines ],
    };
}

sub ack { my ($user, @ids) = @_; return http(POST => '/v1/ack', bearer($user), ':body' => { ids => \@ids }) }

# SSE streams deliver notifications and resume.
my $sse = Clairon::Test::EventStream->open($relay, 'u1');
is($sse->{status}, 200, 'an SSE stream opens');
is($sse->{headers}{'content-type'}, 'text/event-stream', 'the stream has the content type of SSE');
my $connected = $sse->wait_message('connected');
is($connected->{user}, 'u1', 'the first frame is connected');
is($sse->{id}, $connected->{pos}, 'the cursor in connected is the id of the event');
like($sse->{retry}, qr/^\d+$/, 'the stream has a retry time');
my $ws = $relay->client('u1');
my ($id) = insert(t => 'u1');
my $line = $sse->wait_message('msg');
$ws->wait_notifications(1);
is_deeply($line, $ws->wait_for('msg'), 'a frame on SSE is identical to the frame on the WebSocket, including the cursor');
is($sse->{id}, $line->{pos}, 'the cursor of a notification is the id of the event');
insert(t => 'u2');
insert(grp => 'blue');
my $member = Clairon::Test::EventStream->open($relay, 'u3', ':claims' => { groups => { TEAM => ['red'] } });
$member->wait_message('connected');
my ($red) = insert(grp => 'red');
is(row($member->next_notification), $red, 'a stream receives notifications for the groups of the token');
my $before = $sse->{comments};
$sse->wait_message('comment');
cmp_ok($sse->{comments}, '>', $before, 'comments keep the stream alive');
($id) = insert(t => 'u1');
is(row($sse->next_notification), $id, 'a stream receives no notifications of other users');
my $pos = $sse->{id};
$_->disconnect for $sse, $member;
wait_until('the relay has detected the disconnect', sub { $relay->metric('clairon_gate_streams') == 0 });
my @missed = insert(t => 'u1', 3);
my $reconnected = Clairon::Test::EventStream->open($second, 'u1', 'Last-Event-ID' => $pos);
is($reconnected->wait_message('connected')->{resumed}, JSON::true, 'Last-Event-ID resumes, even on another relay');
is_deeply([ map { row($reconnected->next_notification) } 1 .. 3 ], \@missed, 'the resumed stream contains the missed notifications');
($id) = insert(t => 'u1');
is(row($reconnected->next_notification), $id, 'the resumed stream receives later notifications');
my $from_sse = $relay->client('u1', pos => $pos);
$from_sse->wait_notifications(4);
is_deeply([ map { row($_) } $from_sse->notifications ], [ @missed, $id ], 'a WebSocket accepts the cursor of a stream');
my $gone = Clairon::Test::EventStream->open($relay, 'u1', 'Last-Event-ID' => 'nonsense.1-1');
is($gone->wait_message('connected')->{resumed}, JSON::false, 'a client with an unknown cursor does not resume');
is($gone->wait_message('gap')->{why}, 'epoch', 'an unknown cursor causes a gap');
$gone->disconnect;
my $lost = poll('u1', pos => 'nonsense.1-1', wait => 5);
is(join(' ', map { "$_->{t} $_->{why}" } @{ $lost->{messages} }), 'gap epoch',
    'a waiting poll returns a gap immediately');
($id) = insert(t => 'u1');
is(poll('u1', pos => $lost->{pos}, wait => 5)->{rows}, $id, 'the next poll continues from the cursor of the gap');
my $topical = Clairon::Test::EventStream->open($relay, 'u1', ':path' => '/v1/sse?topics=p.due,p.never');
$topical->wait_message('connected');
insert(t => 'u1');
my ($due) = insert(due => 'u1');
my $notification = $topical->next_notification;
is(row($notification), $due, 'topics of the query select notifications');

# Acks are sent over HTTP.
is(ack('u1', $notification->{metadata}{id})->{status}, 204, 'an ack over HTTP is accepted');
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
is_deeply($topical->wait_message('acked')->{ids}, [ $notification->{metadata}{id} ], 'the user\'s connections receive the acked frame');
is(ack('u1', $notification->{metadata}{id})->{status}, 204, 'a repeated ack is accepted');
$_->disconnect for $topical, $reconnected;
$_->close for $ws, $from_sse;
for my $case (
    [ 'an ack without a body', 400, '' ], [ 'an ack that is not JSON', 400, 'ids' ], [ 'an ack without ids', 400, '{}' ], [ 'an ack of an invalid id', 400, '{"ids":["x"]}' ],
    [ 'an ack with another field', 400, "{\"ids\":[\"$notification->{metadata}{id}\"],\"x\":1}" ], [ 'an ack that is an array', 400, '[]' ])
{
    my ($name, $status, $body) = @$case;
    my $response = http(POST => '/v1/ack', bearer('u1'), ':body' => $body);
    is($response->{status}, $status, "$name is rejected with $status");
    is(JSON::decode_json($response->{body})->{code}, 107, "$name is rejected with code 107");
}
is(http(POST => '/v1/ack', bearer('u1'))->{status}, 411, 'an ack requires Content-Length');
is(http(POST => '/v1/ticket', bearer('u1'))->{status}, 200, 'an empty POST needs no Content-Length, because curl -X POST does not send it');
is(http(POST => '/v1/ticket')->{status}, 401, 'an empty POST requires a token');
is(http(POST => '/v1/ack', bearer('u1'), 'Transfer-Encoding' => 'chunked', ':body' => "0\r\n\r\n")->{status}, 400, 'a chunked body with a length is rejected');
is(http(POST => '/v1/ack', bearer('u1'), 'Content-Length' => 2_000_000)->{status}, 413, 'a large body is rejected by its length');
isnt(http(POST => '/v1/ack', bearer('u1'), 'Content-Length' => '1e3')->{status}, 204,
    'a length that is not a decimal number is rejected');

# Polls return JSON lines.
my $empty = poll('p1', wait => 0);
is($empty->{status}, 204, 'an empty poll returns 204');
ok(defined $empty->{pos}, 'an empty poll returns the cursor to resume from');
my @rows = insert(t => 'p1', 5);
my $got = poll('p1', pos => $empty->{pos}, wait => 20);
is($got->{status}, 200, 'a poll returns new notifications');
is($got->{headers}{'content-type'}, 'application/x-ndjson', 'a poll returns JSON lines');
my $rows = $got->{rows};
$rows .= " $got->{rows}" while split(/ /, $rows) < 5 and $got = poll('p1', pos => $got->{pos}, wait => 20);
is($rows, "@rows", 'a poll returns notifications in order, without duplicates');
is(poll('p1', pos => $got->{pos}, wait => 0)->{status}, 204, 'the next poll returns no notifications');
@rows = insert(t => 'p1', 10);
wait_until('the relay has read the notifications', sub { $store->entries >= $next });
my @all;
my $at = $got->{pos};
for (1 .. 20)
{
    my $part = poll('p1', pos => $at, max => 3, wait => 10, ':relay' => $_ % 2 ? $second : $relay);
    my @part = split / /, $part->{rows};
    cmp_ok(scalar(@part), '<=', 3, "a page has at most three notifications: $part->{rows}");
    push @all, @part;
    $at = $part->{pos};
    last if @all >= 10;
}
is("@all", "@rows", 'pages of three notifications from two relays return each notification once');
my $socket = $relay->client('p1', pos => $empty->{pos});
$socket->wait_notifications(15);
is(scalar($socket->notifications), 15, 'a WebSocket accepts a poll\'s cursor');
$socket->close;

is(poll('p1', pos => '', wait => 0)->{status}, 204, 'an empty cursor is the same as no cursor');

# A poll with wait=0 returns before the next periodic pass over all connections, which announces expiring tokens. The
# second relay has a pass every second; the first one has ten, for its short gate.ping.
my $is_prompt;
for (1 .. 20)
{
    # Dies if the machine stalls until the relay closes the connection, six seconds later.
    $is_prompt = eval {
        my $expiring = Clairon::Test::RawSocket->user($second, 'ending', exp => int(time()) + 1);
        poll('p8', wait => 0, ':relay' => $second);
        $expiring->send_json({ t => 'ping' });
        $expiring->next_message->{t} eq 'pong';
    };
    last if $is_prompt;
}
ok($is_prompt, 'a poll with wait=0 returns immediately');

# A poll waits for a notification.
my $waiting = Clairon::Test::RawSocket->new($relay);
$waiting->write("GET /v1/poll?pos=$at&wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'p1') . "\r\n\r\n");
wait_until('the poll is open', sub { $relay->metric('clairon_gate_streams') == 1 });
insert(t => 'p2');
($id) = insert(t => 'p1');
my $response = $waiting->read_response;
is($response->{status}, 200, 'a waiting poll returns when a notification arrives');
is(row(JSON::decode_json((split /\n/, $response->{body})[0])->{n}), $id, 'a waiting poll returns that notification');
$at = $response->{headers}{'clairon-pos'};

# A notification with ack_required is delivered once per ack timeout, even if more than a page is pending.
my @due = insert(due => 'p1', 8);
wait_until('the notifications are pending', sub { $store->pending == 8 });
my (%times, @ids);
for (1 .. 10)
{
    my $part = poll('p1', pos => $at, max => 3, wait => 1);
    last if $part->{status} == 204;
    $times{$_}++ for split / /, $part->{rows};
    push @ids, @{ $part->{ids} };
    $at = $part->{pos};
}
is_deeply(\%times, { map { $_ => 1 } @due }, 'each notification is delivered once although it is unacknowledged');
my $first = poll('p1', max => 100, wait => 5);
is(join(' ', sort { $a <=> $b } split / /, $first->{rows}), "@due", 'a poll without a cursor returns all pending notifications');
is(ack('p1', @ids)->{status}, 204, 'acks of all notifications are accepted');
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
is(poll('p1', wait => 0)->{status}, 204, 'no notification remains');
my @many = insert(due => 'p4', 150);
wait_until('the notifications are pending', sub { $store->pending == 150 });
my ($seen, $cursor) = ({}, undef);
for (1 .. 10)
{
    my $part = poll('p4', wait => 1, defined $cursor ? (pos => $cursor) : ());
    last if $part->{status} == 204;
    $seen->{$_}++ for split / /, $part->{rows};
    $cursor = $part->{pos};
}
is_deeply($seen, { map { $_ => 1 } @many }, 'without acks, successive polls deliver notifications beyond the in-flight window');

my $narrow = poll('p1', pos => $empty->{pos}, topics => 'p.nothing,p.never*', wait => 0);
is($narrow->{status}, 204, 'topics exclude other notifications from a poll');
is(poll('p1', pos => $empty->{pos}, topics => 'p.t', wait => 5)->{status}, 200, 'the selected topics are returned');
is(poll('p1', topics => $_)->{status}, 400, "topics=$_ is rejected") for '', 'a,,b', 'a*b', 'x' x 256;
is(http(GET => "/v1/$_->[0]=" . 'a,' x $_->[1] . 'a', bearer('p1'))->{status}, 400, "a longer list is rejected: $_->[0]")
  for [ 'poll?topics' => 4500 ], [ 'sse?topics' => 4500 ], [ 'sse?rows' => 2500 ];
is(join(' ', map { "$_->{t} $_->{why}" } @{ poll('p1', pos => 'a' x 2000)->{messages} }), 'gap epoch', 'a cursor that is too long is unknown');
is(poll('p1', wait => $_)->{status}, 400, "wait=$_ is rejected") for 'x', '-1', '';
is(poll('p1', max => $_)->{status}, 400, "max=$_ is rejected") for '0', '-1';

# Unauthorized requests are rejected.
for my $path ('/v1/sse', '/v1/poll')
{
    is(http(GET => $path)->{status}, 401, "$path requires a token");
    like(http(GET => $path)->{headers}{'www-authenticate'}, qr/^Bearer/, "$path returns WWW-Authenticate");
    my $expired = http(GET => $path, Authorization => 'Bearer ' . token(sub => 'u1', exp => 1));
    is($expired->{status}, 401, "$path rejects an expired token");
    is(JSON::decode_json($expired->{body})->{code}, 109, "$path reports an expired token with code 109");
    is(http(GET => $path, Authorization => 'Bearer ' . token(sub => 'u1', secret => 'x' x 32))->{status}, 401, "$path rejects a forged token");
    is(http(GET => "$path?token=" . token(sub => 'u1'))->{status}, 401, "$path ignores a token in the URL");
    is(http(POST => $path, 'Content-Length' => 0)->{status}, 405, "$path accepts only GET");
}
is(http(POST => '/v1/ack', ':body' => '{"ids":[]}')->{status}, 401, '/v1/ack requires a token');
is(http(GET => '/v1/ack', bearer('u1'))->{status}, 405, '/v1/ack accepts only POST');

# Tickets authenticate clients that cannot set a header.
sub ticket
{
    my ($user, %claims) = @_;
    my $made = http(POST => '/v1/ticket', bearer($user, %claims), 'Content-Length' => 0);
    return $made->{status} == 200 ? JSON::decode_json($made->{body}) : $made->{status};
}
my $requested_s = int time();
my $ticket = ticket('t1', groups => { TEAM => ['green'] });
like($ticket->{ticket}, qr/^[0-9a-f]{32}$/, '/v1/ticket returns a ticket');
ok($ticket->{exp} >= $requested_s + 30 && $ticket->{exp} <= time() + 31, 'a ticket is valid for half a minute');
my $ttl = $store->execute('TTL', $store->key("ticket:$ticket->{ticket}"));
ok($ttl > 0 && $ttl <= 30, 'the store expires a ticket after half a minute');
my $opened = Clairon::Test::EventStream->open($second, undef, ':path' => "/v1/sse?ticket=$ticket->{ticket}");
is($opened->wait_message('connected')->{user}, 't1', 'a ticket opens SSE on another relay');
my ($green) = insert(grp => 'green');
is(row($opened->next_notification), $green, 'a ticket has the groups of its token');
$opened->disconnect;
is(Clairon::Test::EventStream->open($relay, undef, ':path' => "/v1/sse?ticket=$ticket->{ticket}")->{status}, 401, 'a ticket opens one SSE stream');
is(Clairon::Test::EventStream->open($relay, undef, ':path' => "/v1/sse?ticket=$_")->{status}, 401, "the ticket $_ is rejected")
  for 'f' x 32, 'x', '', '-', '../stream';
$ticket = ticket('t2');
sub ws_with
{
    my ($code, %connect) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay, ':path' => "/v1/ws?ticket=$code");
    $raw->send_json({ t => 'connect', r => 1, %connect });
    my $message = $raw->next_message;
    return $message->{t} eq 'connected' ? $message->{user} : $raw->read_to_end->{code};
}
is(ws_with($ticket->{ticket}), 't2', 'a ticket opens a WebSocket');
is(ws_with($ticket->{ticket}), 4001, 'a ticket opens only one WebSocket');
is(http(POST => '/v1/ticket', 'Content-Length' => 0)->{status}, 401, 'a ticket requires a token');

# The token expires before its ticket is used.
my $ends = time() + 2;
$ticket = ticket('t2', exp => $ends);
wait_until('the token has expired', sub { time() > $ends });
is(http(GET => "/v1/sse?ticket=$ticket->{ticket}")->{json}{code}, 109, 'the ticket of an expired token is rejected with the reason');

# A ticket together with a token is ambiguous.
$ticket = ticket('t3');
my %both = (':path' => "/v1/ws?ticket=$ticket->{ticket}", bearer('t4'));
is(Clairon::Test::RawSocket->open($relay, %both)->{response}{status}, 400, 'a WebSocket with a ticket and a token is rejected');
is(Clairon::Test::EventStream->open($relay, 't4', ':path' => "/v1/sse?ticket=$ticket->{ticket}")->{status}, 400, 'SSE with a ticket and a token is rejected');
my $twice = Clairon::Test::RawSocket->open($relay, ':path' => "/v1/ws?ticket=$ticket->{ticket}");
$twice->send_json({ t => 'connect', r => 1, token => token(sub => 't4') });
is($twice->read_to_end->{code}, 4001, 'a ticket with a token in connect opens no session');
is(ws_with($ticket->{ticket}), 't3', 'a ticket of a rejected request remains valid');
is(http(GET => "/v1/poll?$_", bearer('u1'))->{status}, 400, "the argument after an empty argument is read: $_") for '&wait=x', 'wait=0&&max=x', 'wait=0&=&max=x';
is(http(GET => '/v1/poll?ticket=' . ticket('t2')->{ticket})->{status}, 401, 'a poll accepts no ticket');
isnt($store->execute('GET', $store->key('ticket:' . ticket('t2')->{ticket})), undef, 'the ticket of a poll stays in the store');

# Pages of other origins are rejected.
my $same = http(OPTIONS => '/v1/ack', Origin => "http://127.0.0.1:1");
is($same->{status}, 204, 'a page of the same host is accepted');
is($same->{headers}{'access-control-allow-origin'}, 'http://127.0.0.1:1', 'the response allows the origin of the page');
like($same->{headers}{'access-control-allow-headers'}, qr/authorization/, 'the response allows the Authorization header');
is(http(OPTIONS => '/v1/ack', Origin => 'http://evil.example')->{status}, 403, 'other origins are rejected');
my $foreign = http(GET => '/v1/poll?wait=0', bearer('u1'), Origin => 'http://evil.example');
is($foreign->{status}, 403, 'another origin with a token is rejected');
is($foreign->{headers}{'access-control-allow-origin'}, undef, 'another origin receives no CORS headers');
like($same->{headers}{'access-control-expose-headers'}, qr/\b$_\b/, "the page may read $_")
  for qw(Clairon-Pos Clairon-Next Retry-After Idempotency-Replayed Location Preference-Applied);
is(http(GET => '/v1/poll?wait=0', bearer('u1'), Origin => 'http://127.0.0.1:1')->{headers}{'access-control-allow-origin'},
    'http://127.0.0.1:1', 'a page of the same host can read the response');

my $open = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.origins' => '*' });
for my $origin ('http://evil.example', 'http://' . 'x' x 600)
{
    my $any = http(OPTIONS => '/v1/ack', Origin => $origin, ':relay' => $open);
    my $is_short = length $origin < 512;
    is_deeply([ $any->{status}, $any->{headers}{'access-control-allow-origin'} ], [ $is_short ? (204, $origin) : (403, undef) ],
        'any origin is accepted with *, unless it is too long');
}
$open->stop;

# Streams end when their token expires; streams and polls end during a drain.
my $short = Clairon::Test::EventStream->open($relay, 'u1', ':claims' => { exp => int(time()) - 3 });
is($short->wait_message('connected')->{t}, 'connected', 'a token within the leeway is accepted');
my @last = $short->wait_end;
is(scalar(grep { $_->{t} eq 'expiring' } @last), 1, 'one expiring frame precedes the expiration of a token');
my ($bye) = grep { $_->{t} eq 'bye' } @last;
is($bye->{code}, 4100, 'the expiration of a token closes the stream with 4100');
my $drained = Clairon::Test::EventStream->open($relay, 'u1');
$drained->wait_message('connected');
my $polling = Clairon::Test::RawSocket->new($relay);
$polling->write("GET /v1/poll?wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'p9') . "\r\n\r\n");
wait_until('the stream and the poll are open', sub { $relay->metric('clairon_gate_streams') >= 2 });
kill TERM => $relay->pid;
($bye) = grep { $_->{t} eq 'bye' } $drained->wait_end;
is($bye->{code}, 4201, 'a drain sends bye on SSE');
ok(defined $bye->{in}, 'the bye contains a reconnect delay');
my $ended = $polling->read_response;
is($ended->{status}, 204, 'a drain ends a waiting poll with 204');
ok($ended->{headers}{'clairon-pos'}, 'the response of the poll has its cursor');
is($relay->wait_end, 0, 'SIGTERM ends the relay with status 0');

# The store is unreachable.
$store->stop;
wait_until('the relay has lost its store connection', sub { ($second->get('/readyz'))[0] == 503 });
is(http(GET => '/v1/poll?wait=0', bearer('u1'), ':relay' => $second)->{status}, 503, 'a poll without the store is rejected');
is(http(POST => '/v1/ack', bearer('u1'), ':relay' => $second, ':body' => "{\"ids\":[\"$ids[0]\"]}")->{status}, 503, 'an ack without the store is rejected');
is(http(POST => '/v1/ticket', bearer('u1'), ':relay' => $second, 'Content-Length' => 0)->{status}, 503, 'a ticket is rejected while the store is down');
is($second->stop, 0, 'SIGTERM ends the other relay with status 0');

done_testing();
