# Tests that each client frame causes its response or close code, and does not affect other clients.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket qw(CONTINUATION TEXT BINARY CLOSE PING PONG);
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.connect_timeout' => '10m' });
my $hasty = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.connect_timeout' => '2s' });
my $bystander = Clairon::Test::RawSocket->user($relay, 'bystander');
my $id        = '0190f5c8-1111-7000-8000-000000000001';

sub open_socket { return Clairon::Test::RawSocket->open($relay) }
sub user  { return Clairon::Test::RawSocket->user($relay, 'u1') }

# Expects err 107. The connection stays open.
sub expect_err
{
    my ($raw, $text, $r, $name) = @_;
    $raw->text($text);
    my $err = $raw->next_message;
    is_deeply([ @{$err}{qw(t code r retry)} ], [ 'err', 107, $r, JSON::false ], "$name causes err 107");
    return;
}

sub stays_open
{
    my ($raw, $name) = @_;
    $raw->send_json({ t => 'ping' });
    is($raw->next_message->{t}, 'pong', "$name does not close the connection");
    return;
}

# The first frame must be a valid connect.
for my $first ('{"t":"pong"}', '{"t":"ack","ids":["' . $id . '"]}', '{"t":"refresh","token":"x"}')
{
    my $raw = open_socket();
    $raw->text($first);
    $raw->ends_with(4000, "$first before connect");
}
my $late = open_socket();
my $silent = Clairon::Test::RawSocket->open($hasty);
expect_err($late, '{"t":"hello","r":1}', 1, 'an unknown first frame');
expect_err($late, '{"t":"connect","r":2,"token":17}', 2, 'a connect with an invalid field');
$late->send_json({ t => 'connect', r => 3, token => token(sub => 'u1') });
is($late->next_message->{t}, 'connected', 'a valid connect is accepted after invalid frames');
stays_open($late, 'an invalid first frame');
expect_err($late, '{"t":"connect","r":4,"token":"x"}', 4, 'a second connect');
stays_open($late, 'a second connect');
$silent->ends_with(4002, 'a client that sends no frame');
my $incomplete = Clairon::Test::RawSocket->open($hasty);
$incomplete->frame(TEXT, '{"t":', final => 0);
$incomplete->ends_with(4002, 'an incomplete WebSocket message');

# WebSocket frames that are too long or contain no JSON object end the connection.
for my $case (
    [ 'a string that is not JSON', 4000, sub { $_[0]->text('hello') } ],
    [ 'half an object',   4000, sub { $_[0]->text('{"t":"ping"') } ],
    [ 'two objects in one line',  4000, sub { $_[0]->text('{"t":"ping"}{"t":"ping"}') } ],
    [ 'an empty text frame',   4000, sub { $_[0]->text('') } ],
    [ 'a zero byte',      4000, sub { $_[0]->text("\0") } ],
    [ 'a binary frame',   1003, sub { $_[0]->frame(BINARY, '{"t":"ping"}') } ],
    [ 'an empty binary frame', 1003, sub { $_[0]->frame(BINARY, '') } ],
    [ 'invalid UTF-8',     1007, sub { $_[0]->text("{\"t\":\"\xff\"}") } ],
    [ 'overlong UTF-8',   1007, sub { $_[0]->text("{\"t\":\"\xc0\xaf\"}") } ],
    [ 'a surrogate',      1007, sub { $_[0]->text("{\"t\":\"\xed\xa0\x80\"}") } ],
    [ 'a character above Unicode', 1007, sub { $_[0]->text("{\"t\":\"\xf4\x90\x80\x80\"}") } ],
    [ 'a truncated character', 1007, sub { $_[0]->text("{\"t\":\"ping\"}\xe2\x82") } ],
    [ 'a text frame of 2 MB',  1009, sub { $_[0]->text('x' x (2 << 20)) } ],
    [ 'a length of 2 MB',   1009, sub { $_[0]->frame(TEXT, '{', length => 2 << 20) } ],
    [ 'a length of 8 EB',   1009, sub { $_[0]->frame(TEXT, '{', length => ~0 >> 1) } ],
    [ 'a text frame one byte over the limit', 1009, sub { $_[0]->text('x' x (64 * 1024 + 1)) } ],
    [ 'a fragmented text over the limit', 1009, sub {
        $_[0]->frame(TEXT, 'x' x 40_000, final => 0);
        $_[0]->frame(CONTINUATION, 'x' x 40_000);
    } ])
{
    my ($name, $code, $send) = @$case;
    my $raw = user();
    $send->($raw);
    $raw->ends_with($code, $name);
}

# WebSocket protocol violations end the connection; libwebsockets chooses the close code.
for my $case (
    [ 'a reserved opcode',   sub { $_[0]->frame(3, 'x') } ],
    [ 'a reserved bit',      sub { $_[0]->frame(TEXT, '{"t":"ping"}', bits => 0x40) } ],
    [ 'a long control frame', sub { $_[0]->frame(PING, 'x' x 126) } ],
    [ 'a fragmented ping',   sub { $_[0]->frame(PING, 'x', final => 0) } ],
    [ 'a continuation without a start', sub { $_[0]->frame(CONTINUATION, '{"t":"ping"}') } ],
    [ 'a text within a fragmented text', sub {
        $_[0]->frame(TEXT, '{"t":', final => 0);
        $_[0]->frame(TEXT, '{"t":"ping"}');
    } ])
{
    my ($name, $send) = @$case;
    my $raw = user();
    $send->($raw);
    my $end = $raw->read_to_end;
    ok($end->{code} != 1000 && !grep({ $_->{t} eq 'pong' } @{ $end->{messages} }), "$name ends the connection");
}

# The relay replies to a client's close frame.
my $leaving = user();
$leaving->frame(CLOSE, pack 'n', 1000);
is($leaving->read_to_end->{code}, 1000, 'a close frame receives a close frame with the same code');

# Unusual but valid input is accepted.
my $raw = user();
$raw->frame(TEXT, '{"t":"pi', final => 0);
$raw->frame(PING, 'in between');
$raw->frame(CONTINUATION, '',      final => 0);
$raw->frame(CONTINUATION, 'ng","r":1}');
is_deeply($raw->next_frame, { opcode => PONG, payload => 'in between' }, 'a WebSocket ping receives an immediate reply');
is($raw->next_message->{t}, 'pong', 'fragments form one frame of the protocol');
$raw->text("{\"t\":\"ping\"}\n{\"t\":\"nonsense\",\"r\":5}\n\n{\"t\":\"ping\"}\n");
is_deeply([ map { $raw->next_message->{t} } 1 .. 3 ], [ 'pong', 'err', 'pong' ], 'the lines of one WebSocket frame are processed in order');
$raw->text(" \t{ \"t\" : \"ping\" }\r");
is($raw->next_message->{t}, 'pong', 'white space is ignored');
$raw->frame(PONG, 'unasked');
stays_open($raw, 'an unsolicited pong');
my $spread = '{"t":"ping","r":' . ' ' x 60_000 . '1}';
for my $at (0 .. length($spread) - 1)
{
    next if $at % 10_000;
    $raw->frame($at ? CONTINUATION : TEXT, substr($spread, $at, 10_000), final => $at + 10_000 >= length $spread);
}
is($raw->next_message->{t}, 'pong', 'a long frame in many fragments receives a reply');
$raw->text('{"t":"ping"' . ' ' x (64 * 1024 - 12) . '}');
is($raw->next_message->{t}, 'pong', 'a frame of exactly max_frame_bytes receives a reply');

# Valid JSON that is not a valid frame causes err 107.
expect_err($raw, $_->[0], $_->[1], $_->[2]) for
  [ '{"t":"dance","r":7}', 7, 'an unknown value of t' ],
  [ '{"r":8}', 8, 'a frame without the field t' ],
  [ '{"t":17,"r":9}', 9, 'a field t that is not a string' ],
  [ '{"t":"ping","r":10,"more":1}', 10, 'an unknown field' ],
  [ '{"t":"ping","r":"eleven"}', undef, 'a field r that is not a number' ],
  [ '{"t":"ping","r":1e400}', undef, 'a number out of range' ],
  [ '{"t":"ping","t":"pong"}', undef, 'a repeated field' ],
  [ '[1,2]', undef, 'an array' ], [ '"ping"', undef, 'a string' ], [ 'null', undef, 'null' ],
  [ '{"t":"\u0000"}', undef, 'a NUL in a string' ],
  [ '[' x 5000 . ']' x 5000, undef, 'deep nesting' ],
  [ '{"t":"ack","r":12}', 12, 'an ack without ids' ],
  [ '{"t":"ack","r":13,"ids":"' . $id . '"}', 13, 'ids that are not an array' ],
  [ '{"t":"ack","r":14,"ids":[]}', 14, 'an empty list of ids' ],
  [ '{"t":"ack","r":15,"ids":[17]}', 15, 'an id that is not a string' ],
  [ '{"t":"ack","r":16,"ids":["' . $id . '","nonsense"]}', 16, 'an id that is not a UUID' ],
  [ '{"t":"ack","r":17,"ids":[' . join(',', ("\"$id\"") x 1025) . ']}', 17, 'more ids than allowed' ],
  [ '{"t":"refresh","r":18}', 18, 'a refresh without a token' ],
  [ '{"t":"refresh","r":19,"token":null}', 19, 'a token that is not a string' ];
stays_open($raw, 'an invalid frame');

# Acks that have no effect receive no response.
$raw->send_json({ t => 'ack', ids => [$id] }, { t => 'ack', ids => [ uc $id, $id ] },
    { t => 'ack', ids => [ ($id) x 1024 ] });
stays_open($raw, 'an ack of unknown ids');
is($relay->metric('clairon_store_acks_total'), 0, 'an invalid ack has no effect');
is($store->execute('EXISTS', $store->keys("ack:$id")), 0, 'an invalid ack creates no key');

# The replies to these requests are larger than the relay's reply buffer.
my $subscriber = user();
$subscriber->send_json({ t => 'subscribe', r => 1, topics => [ map { "$_." . 'x' x 240 } 1 .. 30 ] });
is($subscriber->next_message->{t}, 'subscribed', 'a client has many topics');
$subscriber->send_json(map { { t => $_ % 2 ? 'subscribe' : 'unsubscribe', r => $_, topics => ['other'] } } 2 .. 101);
my @replies = map { $subscriber->next_message } 2 .. 101;
is(join(' ', sort { $a <=> $b } map { $_->{r} } @replies), join(' ', 2 .. 101), 'each request of a burst for topics receives a reply');
is_deeply([ sort keys %{ { map { ($_->{code} // $_->{t}) => 1 } @replies } } ], [ 111, 'subscribed' ], 'some requests are rejected with 111');

# The number of unread err frames is also limited.
my $not_reading = user();
for (1 .. 2000)
{
    last unless eval { $not_reading->text(join "\n", ('{"t":"dance"}') x 2000) };
}
my $flood = eval { $not_reading->read_to_end };
ok(defined $flood, 'a client that sends invalid frames and never reads is disconnected');

stays_open($bystander, 'the other client\'s connection is closed');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
