# Tests conformance to RFC 6455, in the categories of the Autobahn test suite. A valid text message contains a ping of
# the client protocol, which causes a pong.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket qw(CONTINUATION TEXT BINARY CLOSE PING PONG);
use Socket ();
use Test::More;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');

my $bystander = Clairon::Test::RawSocket->user($relay, 'bystander');
my $line      = '{"t":"ping"}';
my $cases     = 0;

# Returns a message of exactly this many bytes that causes a pong.
sub ping_of { my ($bytes) = @_; return '{"t":"ping"' . ' ' x ($bytes - 12) . '}' }

# A message that causes err 107: valid UTF-8 and valid JSON with an unknown field.
sub text_of { my ($bytes) = @_; return "{\"t\":\"ping\",\"$bytes\":1}" }

# Runs one case: `$send` acts on a new connection; `$expected` lists the replies in order: message types, [ opcode,
# payload ] for control frames, and a number for the close code.
sub is_case
{
    my ($name, $send, @expected) = @_;
    $cases++;
    my $raw = Clairon::Test::RawSocket->user($relay, 'u1');
    my $end = $expected[-1] =~ /^\d+$/ ? pop @expected : undef;
    my $outcome = defined $end ? "is closed with $end" : @expected ? 'receives a reply' : 'is ignored';
    $send->($raw);
    if (!defined $end)
    {
        $raw->frame(TEXT, '{"t":"dance","r":77}');
        push @expected, 'err 77';
    }
    my @got;
    while (defined $end || @got < @expected)
    {
        my $frame = eval { $raw->next_frame };
        push(@got, $@ || 'disconnected'), last if !$frame;
        if ($frame->{opcode} == TEXT)
        {
            push @got, map { describe(JSON::decode_json($_)) } split /\n/, $frame->{payload};
            next;
        }
        push(@got, [ $frame->{opcode}, $frame->{payload} ]), next if $frame->{opcode} != CLOSE;
        push @got, length $frame->{payload} ? unpack 'n', $frame->{payload} : 1005;
        last;
    }
    push @expected, $end if defined $end;
    @got = grep { $_ !~ /^bye/ } @got;
    is_deeply(\@got, \@expected, "$name $outcome") or diag(explain(\@got));
    $raw->disconnect;
    return;
}

sub describe { my ($message) = @_; return join ' ', grep { defined } @{$message}{ 't', 'r' } }

# Returns the bytes of a frame, to be sent in pieces.
sub frame_bytes
{
    my ($opcode, $payload, %options) = @_;
    my $raw = bless { pieces => '' }, 'Pieces';
    Clairon::Test::RawSocket::frame($raw, $opcode, $payload, %options);
    return $raw->{pieces};
}
sub Pieces::write { my ($self, $bytes) = @_; $self->{pieces} .= $bytes; return 1 }

# Sends each piece in a separate TCP segment, after the relay has read the previous piece.
sub send_pieces
{
    my ($raw, $bytes, $size) = @_;
    $raw->{link}->setsockopt(Socket::IPPROTO_TCP(), Socket::TCP_NODELAY(), 1);
    $raw->write(substr $bytes, 0, $size, '') while length $bytes;
    return;
}

# 1. Framing: every length encoding, in one piece, byte by byte, and in chunks.
is_case('1.1.1 an empty frame', sub { $_[0]->frame(TEXT, '') }, 4000);
for my $bytes (12, 125, 126, 127, 128, 65_535, 65_536)
{
    is_case("1.1 text of $bytes bytes", sub { $_[0]->text(ping_of($bytes)) }, 'pong');
}
is_case('1.1 text of 126 bytes, byte by byte', sub { send_pieces($_[0], frame_bytes(TEXT, ping_of(126)), 1) }, 'pong');
is_case("1.1 text of $_ bytes, in chunks of 997", sub { send_pieces($_[0], frame_bytes(TEXT, ping_of($_)), 997) }, 'pong')
  for 65_535, 65_536;
is_case('1.1 text of 300 bytes, header in two halves', sub { send_pieces($_[0], frame_bytes(TEXT, ping_of(300)), 3) }, 'pong');
is_case('1.1 many frames in one segment', sub { $_[0]->write(frame_bytes(TEXT, $line) x 50) }, ('pong') x 50);
is_case('1.1 an empty mask', sub { $_[0]->write("\x81\x8c\0\0\0\0$line") }, 'pong');
for my $bytes (0, 1, 125, 126, 127, 65_536)
{
    is_case("1.2 binary of $bytes bytes", sub { $_[0]->frame(BINARY, 'x' x $bytes) }, 1003);
}
is_case("1.3 a non-minimal length: $_->[0]", sub { $_[0]->write($_->[1]) }, 1002)
  for [ '12 in 16 bits', "\x81\xfe\x00\x0c\0\0\0\0$line" ], [ '125 in 16 bits', "\x81\xfe\x00\x7d\0\0\0\0" . ping_of(125) ],
  [ '12 in 64 bits', "\x81\xff" . pack('Q>', 12) . "\0\0\0\0$line" ], [ '65 535 in 64 bits', "\x81\xff" . pack('Q>', 65_535) . "\0\0\0\0" . ping_of(65_535) ],
  [ 'zero in 16 bits, a fragment', "\x01\xfe\0\0\0\0\0\0" ];
is_case('1.3 a length of 64 bits with the top bit', sub {
    $_[0]->write("\x81\xff" . pack('Q>', 1 << 63 | 12) . "\0\0\0\0$line") }, 1002);

# 2. Pings and pongs.
is_case('2.1 ping without payload', sub { $_[0]->frame(PING, '') }, [ PONG, '' ]);
is_case('2.2 ping with text', sub { $_[0]->frame(PING, 'Hello, world!') }, [ PONG, 'Hello, world!' ]);
is_case('2.3 ping with invalid UTF-8', sub { $_[0]->frame(PING, "\x00\xff\xfe\xfd\xfc") }, [ PONG, "\x00\xff\xfe\xfd\xfc" ]);
is_case('2.4 ping of 125 bytes', sub { $_[0]->frame(PING, "\xfe" x 125) }, [ PONG, "\xfe" x 125 ]);
is_case('2.5 ping of 126 bytes', sub { $_[0]->frame(PING, "\xfe" x 126) }, 1002);
is_case('2.6 ping of 125 bytes, byte by byte', sub { send_pieces($_[0], frame_bytes(PING, "\xfe" x 125), 1) }, [ PONG, "\xfe" x 125 ]);
is_case('2.7 unsolicited pong, empty', sub { $_[0]->frame(PONG, '') });
is_case('2.8 unsolicited pong, with text', sub { $_[0]->frame(PONG, 'unasked') });
is_case('2.9 unsolicited pong, then a ping', sub { $_[0]->frame(PONG, 'unasked'); $_[0]->frame(PING, 'asked') }, [ PONG, 'asked' ]);
is_case('2.10 ten pings', sub { my $raw = shift; $raw->frame(PING, "payload-$_") for 0 .. 9 }, map { [ PONG, "payload-$_" ] } 0 .. 9);
is_case('2.11 ten pings, byte by byte', sub {
    my $raw = shift;
    send_pieces($raw, join('', map { frame_bytes(PING, "payload-$_") } 0 .. 9), 1) }, map { [ PONG, "payload-$_" ] } 0 .. 9);
is_case('2.12 a masked ping without payload, then text', sub { $_[0]->frame(PING, ''); $_[0]->text($line) }, [ PONG, '' ], 'pong');

# 3. Reserved bits without an extension.
for my $bits (1 .. 7)
{
    is_case("3.$bits reserved bits $bits on a text", sub { $_[0]->frame(TEXT, $line, bits => $bits << 4) }, 1002);
}
is_case('3.8 reserved bit after a valid text', sub { $_[0]->text($line); $_[0]->frame(TEXT, $line, bits => 0x10) }, 'pong', 1002);
is_case('3.9 reserved bit on a ping', sub { $_[0]->frame(PING, '', bits => 0x40) }, 1002);
is_case('3.10 reserved bit on a close', sub { $_[0]->frame(CLOSE, pack('n', 1000), bits => 0x20) }, 1002);
is_case('3.11 reserved bit on a continuation', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CONTINUATION, '"ping"}', bits => 0x40) }, 1002);

# 4. Reserved opcodes.
for my $opcode (3 .. 7, 11 .. 15)
{
    is_case("4.$opcode reserved opcode $opcode, empty", sub { $_[0]->frame($opcode, '') }, 1002);
    is_case("4.$opcode reserved opcode $opcode after text", sub { $_[0]->text($line); $_[0]->frame($opcode, 'x') }, 'pong', 1002);
}

# 5. Fragmentation.
is_case('5.1 ping in two fragments', sub { $_[0]->frame(PING, 'frag', final => 0); $_[0]->frame(CONTINUATION, 'ment') }, 1002);
is_case('5.2 pong in two fragments', sub { $_[0]->frame(PONG, 'frag', final => 0); $_[0]->frame(CONTINUATION, 'ment') }, 1002);
is_case('5.2 close in two fragments', sub { $_[0]->frame(CLOSE, pack('n', 1000), final => 0) }, 1002);
is_case('5.3 text in two fragments', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CONTINUATION, '"ping"}') }, 'pong');
is_case('5.4 text in two fragments, byte by byte', sub {
    send_pieces($_[0], frame_bytes(TEXT, '{"t":', final => 0) . frame_bytes(CONTINUATION, '"ping"}'), 1) }, 'pong');
is_case('5.5 a ping between two fragments', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(PING, 'ping me');
    $_[0]->frame(CONTINUATION, '"ping"}') }, [ PONG, 'ping me' ], 'pong');
is_case('5.6 pings and pongs between five fragments', sub {
    my $raw = shift;
    $raw->frame(TEXT, '{"t', final => 0);
    for my $piece ('":"', 'pi', 'ng')
    {
        $raw->frame(PING, $piece);
        $raw->frame(PONG, $piece);
        $raw->frame(CONTINUATION, $piece, final => 0);
    }
    $raw->frame(CONTINUATION, '"}') }, [ PONG, '":"' ], [ PONG, 'pi' ], [ PONG, 'ng' ], 'pong');
is_case('5.7 a close between two fragments', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CLOSE, pack 'n', 1000) }, 1000);
is_case('5.9 a final continuation without a start', sub { $_[0]->frame(CONTINUATION, $line) }, 1002);
is_case('5.10 a continuation without a start, after text', sub { $_[0]->text($line); $_[0]->frame(CONTINUATION, $line) }, 'pong', 1002);
is_case('5.11 a continuation without a start, not final', sub { $_[0]->frame(CONTINUATION, 'x', final => 0) }, 1002);
is_case('5.12 an additional continuation', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CONTINUATION, '"ping"}');
    $_[0]->frame(CONTINUATION, 'x') }, 'pong', 1002);
is_case('5.18 a text inside a fragmented text', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(TEXT, $line) }, 1002);
is_case('5.18 a fragment of a second text inside a fragmented text', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(TEXT, $line, final => 0) }, 1002);
is_case('5.18 a binary inside a fragmented text', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(BINARY, 'x') }, 1002);
is_case('5.19 empty fragments around the text', sub {
    $_[0]->frame(TEXT, '', final => 0);
    $_[0]->frame(CONTINUATION, '', final => 0);
    $_[0]->frame(CONTINUATION, $line, final => 0);
    $_[0]->frame(CONTINUATION, '') }, 'pong');
is_case('5.20 a fragmented binary', sub { $_[0]->frame(BINARY, 'x', final => 0) }, 1003);

# 6. UTF-8.
my %good = (
    'two bytes'              => "\xc3\xa9",
    'kosme'                  => "\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5",
    'first of three bytes'   => "\xe0\xa0\x80",
    'below the surrogates'   => "\xed\x9f\xbf",
    'above the surrogates'   => "\xee\x80\x80",
    'the replacement character' => "\xef\xbf\xbd",
    'a non-character'        => "\xef\xbf\xbf",
    'first of four bytes'    => "\xf0\x90\x80\x80",
    'last code point of Unicode'        => "\xf4\x8f\xbf\xbf",
);
for my $name (sort keys %good)
{
    is_case("6.5 valid UTF-8: $name", sub { $_[0]->text(text_of($good{$name})) }, 'err');
}
is_case('6.2 UTF-8 cut between fragments', sub {
    my $text = text_of($good{kosme});
    $_[0]->frame($_ ? CONTINUATION : TEXT, substr($text, $_, 1), final => $_ == length($text) - 1)
      for 0 .. length($text) - 1 }, 'err');
my %bad = (
    'above Unicode'           => "\xf4\x90\x80\x80",
    'a lone continuation'     => "\x80",
    'a truncated sequence'    => "\xe2\x82",
    'a lone start byte' => "\xce",
    'overlong slash in 2'     => "\xc0\xaf",
    'overlong slash in 3'     => "\xe0\x80\xaf",
    'overlong slash in 4'     => "\xf0\x80\x80\xaf",
    'overlong in 5'           => "\xf8\x88\x80\x80\x80",
    'overlong in 6'           => "\xfc\x84\x80\x80\x80\x80",
    'high surrogate'          => "\xed\xa0\x80",
    'low surrogate'           => "\xed\xbf\xbf",
    'a surrogate pair'        => "\xed\xa0\x80\xed\xb0\x80",
    '0xfe'                    => "\xfe",
    '0xff'                    => "\xff",
);
for my $name (sort keys %bad)
{
    is_case("6.20 invalid UTF-8: $name", sub { $_[0]->text(text_of($bad{$name})) }, 1007);
}
is_case('6.3 invalid UTF-8 in the second of three fragments', sub {
    $_[0]->frame(TEXT, '{"t":"', final => 0);
    $_[0]->frame(CONTINUATION, "\xed\xa0", final => 0);
    $_[0]->frame(CONTINUATION, "\x80\"}") }, 1007);
is_case('6.4.1 invalid UTF-8 in a fragment before other fragments', sub {
    $_[0]->frame(TEXT, "{\"t\":\"\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80", final => 0) }, 1007);
is_case('6.4.2 invalid UTF-8 after a valid byte in a fragment before other fragments', sub {
    $_[0]->frame(TEXT, "{\"t\":\"\xf4", final => 0);
    $_[0]->frame(CONTINUATION, "\x90", final => 0) }, 1007);
is_case('6.4.3 invalid UTF-8 in the first half of a frame', sub { $_[0]->write(substr frame_bytes(TEXT, "{\"t\":\"\xf8" . 'x' x 30_000), 0, 20_000) }, 1007);
is_case("6.4.4 a character across two fragments: $_->[0]", sub {
    my ($head, $tail) = ("{\"t\":\"ping\",\"$_->[1]", "$_->[2]\":1}");
    $_[0]->frame(TEXT, $head, final => 0);
    $_[0]->frame(CONTINUATION, $tail) }, 'err')
  for [ 'e0', "\xe0", "\xa0\x80" ], [ 'ed 9f', "\xed\x9f", "\xbf" ], [ 'f0', "\xf0", "\x90\x80\x80" ], [ 'f4 8f bf', "\xf4\x8f\xbf", "\xbf" ];
is_case('6.4 text that ends within a character', sub { $_[0]->text("{\"t\":\"ping\"}\xe2") }, 1007);

# 7. Closing.
is_case('7.1.1 text, then a close', sub { $_[0]->text($line); $_[0]->frame(CLOSE, pack 'n', 1000) }, 'pong', 1000);
is_case('7.1.2 two closes', sub { $_[0]->frame(CLOSE, pack 'n', 1000) for 1, 2 }, 1000);
is_case('7.1.3 a ping after the close', sub { $_[0]->frame(CLOSE, pack 'n', 1000); $_[0]->frame(PING, '') }, 1000);
is_case('7.1.4 text after the close', sub { $_[0]->frame(CLOSE, pack 'n', 1000); $_[0]->text($line) }, 1000);
is_case('7.1.5 a fragment, the close, the remaining fragment', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CLOSE, pack 'n', 1000);
    $_[0]->frame(CONTINUATION, '"ping"}') }, 1000);
is_case('7.1.6 64 kB of text, the close, a ping', sub {
    $_[0]->text(ping_of(65_536));
    $_[0]->frame(CLOSE, pack 'n', 1000);
    $_[0]->frame(PING, '') }, 'pong', 1000);
is_case('7.3.1 a close without payload', sub { $_[0]->frame(CLOSE, '') }, 1005);
is_case('7.3.2 a close with one byte', sub { $_[0]->frame(CLOSE, 'a') }, 1002);
is_case('7.3.3 a close with a code', sub { $_[0]->frame(CLOSE, pack 'n', 1000) }, 1000);
is_case('7.3.4 a close with code and reason', sub { $_[0]->frame(CLOSE, pack 'na*', 1000, 'goodbye') }, 1000);
is_case('7.3.5 a reason of 123 bytes', sub { $_[0]->frame(CLOSE, pack 'na*', 1000, '*' x 123) }, 1000);
is_case('7.3.6 a reason of 124 bytes', sub { $_[0]->frame(CLOSE, pack 'na*', 1000, '*' x 124) }, 1002);
is_case('7.5.1 a reason with invalid UTF-8', sub { $_[0]->frame(CLOSE, pack 'na*', 1000, "\xce\xba\xed\xa0\x80") }, 1007);
for my $code (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999)
{
    is_case("7.7 close code $code", sub { $_[0]->frame(CLOSE, pack 'n', $code) }, $code);
}
for my $code (0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535)
{
    is_case("7.9 close code $code", sub { $_[0]->frame(CLOSE, pack 'n', $code) }, 1002);
}

# 9. Limits: a frame that is too long is rejected based on its header.
is_case('9.1 text of 65 537 bytes', sub { $_[0]->text(ping_of(65_537)) }, 1009);
is_case('9.1 text of 1 MB', sub { $_[0]->text('x' x (1 << 20)) }, 1009);
is_case('9.3 fragments of 65 537 bytes in total', sub {
    $_[0]->frame(TEXT, substr(ping_of(65_537), 0, 40_000), final => 0);
    $_[0]->frame(CONTINUATION, substr ping_of(65_537), 40_000) }, 1009);
is_case('9.3 fragments of 65 536 bytes in total', sub {
    $_[0]->frame(TEXT, substr(ping_of(65_536), 0, 40_000), final => 0);
    $_[0]->frame(CONTINUATION, substr ping_of(65_536), 40_000) }, 'pong');
is_case('9.4 one fragment per byte', sub {
    my $text = ping_of(2000);
    $_[0]->write(join '', map {
        frame_bytes($_ ? CONTINUATION : TEXT, substr($text, $_, 1), final => $_ == 1999) } 0 .. 1999) }, 'pong');
# Together with the connect frame, this is the maximum number of frames in one burst.
is_case('9.7 many messages, one per frame', sub { $_[0]->write(frame_bytes(TEXT, $line) x 999) }, ('pong') x 999);

# 10. Clients must mask their frames.
is_case('10.1 a text without a mask', sub { $_[0]->frame(TEXT, $line, masked => 0) }, 1002);
is_case('10.2 the second text without a mask', sub {
    $_[0]->text($line);
    $_[0]->frame(TEXT, $line, masked => 0) }, 'pong', 1002);
is_case('10.3 a ping without a mask', sub { $_[0]->frame(PING, 'x', masked => 0) }, 1002);
is_case('10.4 a close without a mask', sub { $_[0]->frame(CLOSE, pack('n', 1000), masked => 0) }, 1002);
is_case('10.5 a continuation without a mask', sub {
    $_[0]->frame(TEXT, '{"t":', final => 0);
    $_[0]->frame(CONTINUATION, '"ping"}', masked => 0) }, 1002);
my $first = Clairon::Test::RawSocket->open($relay);
$first->frame(TEXT, '{"t":"connect","token":"' . token(sub => 'u1') . '"}', masked => 0);
is($first->read_to_end->{code}, 1002, '10.6 an unmasked first frame is closed with 1002');

# The handshake.
sub upgrade
{
    my (%headers) = @_;
    $cases++;
    my $raw = Clairon::Test::RawSocket->open($relay, %headers);
    $raw->disconnect;
    return $raw->{response};
}
is(upgrade()->{headers}{'sec-websocket-accept'}, 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', 'h.1 Sec-WebSocket-Accept has the value in RFC 6455');
my $old = upgrade('Sec-WebSocket-Version' => 8);
is($old->{status}, 426, 'h.2 version 8 is rejected with 426');
is($old->{headers}{'sec-websocket-version'}, 13, 'h.2 the rejection contains the supported version');
is(upgrade('Sec-WebSocket-Version' => undef)->{status}, 426, 'h.3 a missing version is rejected');
is(upgrade('Sec-WebSocket-Version' => '13x')->{status}, 426, 'h.4 a version with a valid prefix is rejected');
is(upgrade('Sec-WebSocket-Key' => undef)->{status}, 400, 'h.5 a missing key is rejected');
is(upgrade('Sec-WebSocket-Key' => $_->[0])->{status}, 400, "h.6 a key that is $_->[1] is rejected")
  for [ 'dGhlIHNhbXBsZQ==', 'too short' ], [ 'dGhlIHNhbXBsZSBub25jZSBpcyBsb25n', 'too long' ],
  [ 'dGhlIHNhbXBsZSBub25jZ!==', 'not base64' ], [ 'x' x 300, 'far too long' ];
is(upgrade(':path' => '/v1/elsewhere')->{status}, 404, 'h.7 an unknown path returns 404');
is(upgrade('Sec-WebSocket-Protocol' => 'chat')->{status}, 400, 'h.8 an unknown subprotocol is rejected');
is(upgrade(':method' => 'POST', 'Content-Length' => 0)->{status}, 405, 'h.9 another method is rejected');
is(upgrade('Sec-WebSocket-Extensions' => 'permessage-deflate; client_max_window_bits')
      ->{headers}{'sec-websocket-extensions'}, undef, 'h.10 no extension is accepted');
isnt(upgrade('X-Large' => 'x' x 100_000)->{status}, 101, 'h.11 headers of 100 kB are rejected');
is(upgrade(map { ("X-Header-$_" => 'x' x 20) } 1 .. 100)->{status}, 101, 'h.12 a hundred headers are accepted');
is(upgrade(Connection => 'keep-alive, Upgrade')->{status}, 101, 'h.13 the Connection header of Firefox is accepted');
is(upgrade(Upgrade => 'WebSocket')->{status}, 101, 'h.14 Upgrade is case-insensitive');
my $http10 = Clairon::Test::RawSocket->new($relay);
$cases++;
$http10->write("GET /v1/ws HTTP/1.0\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      . "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n");
isnt($http10->read_response->{status}, 101, 'h.15 HTTP/1.0 is not upgraded');

cmp_ok($cases, '>=', 80, "this test has run $cases cases");
$bystander->send_json({ t => 'ping' });
is($bystander->wait_message('pong')->{t}, 'pong', 'another client is not affected');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
