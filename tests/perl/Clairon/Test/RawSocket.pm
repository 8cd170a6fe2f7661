# Clairon::Test::RawSocket: a TCP connection to a relay that can send bytes that no regular client sends.
#
#   my $raw = Clairon::Test::RawSocket->new($relay);
#   my $response = $raw->request(GET => '/healthz');      # { status, headers, body, json: decoded if the body is JSON }
#   my $raw = Clairon::Test::RawSocket->open($relay, Origin => 'http://evil.example');
#   $raw->{response}{status}; $raw->frame(TEXT, '{"t":"pi', final => 0); $raw->next_message; $raw->read_to_end
package Clairon::Test::RawSocket;

use strict;
use warnings;

use Errno qw(EAGAIN EINTR);
use Exporter qw(import);
use IO::Select;
use IO::Socket::IP;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

use constant { CONTINUATION => 0, TEXT => 1, BINARY => 2, CLOSE => 8, PING => 9, PONG => 10 };
our @EXPORT_OK = qw(CONTINUATION TEXT BINARY CLOSE PING PONG);

my $json = JSON->new->utf8->canonical;
my $key  = 'dGhlIHNhbXBsZSBub25jZQ==';

sub new
{
    my ($class, $relay) = @_;
    my $link = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $relay->{port}, Timeout => $Clairon::Test::SECONDS)
      or die "could not connect to port $relay->{port}: $@\n";
    $link->blocking(0);
    return bless { link => $link, bytes => '', messages => [], host => "127.0.0.1:$relay->{port}" }, $class;
}

# Connects and requests the upgrade; {response} is the relay's response. Options are additional headers, or undef to
# omit a header; ':path' and ':method' change the request line.
sub open
{
    my ($class, $relay, %headers) = @_;
    my $self = $class->new($relay);
    my ($method, $path) = map { delete $headers{$_} } ':method', ':path';
    $self->request(
        $method // 'GET', $path // '/v1/ws',
        Upgrade                  => 'websocket',
        Connection               => 'Upgrade',
        'Sec-WebSocket-Key'      => $key,
        'Sec-WebSocket-Version'  => 13,
        'Sec-WebSocket-Protocol' => 'clairon.v1.json',
        %headers);
    return $self;
}

# Like open(), then sends the connect frame. The token's sub is this user, unless `token` is set.
sub user
{
    my ($class, $relay, $user, %options) = @_;
    my $self = $class->open($relay);
    die "upgrade rejected: $self->{response}{status}\n" if $self->{response}{status} != 101;
    my $token = $options{token} // Clairon::Test::token(sub => $user, %options);
    $self->send_json({ t => 'connect', r => 1, token => $token });
    my $line = $self->next_message;
    die 'not connected: ' . $json->encode($line) . "\n" unless $line->{t} eq 'connected';
    return $self;
}

sub request { my ($self, @arguments) = @_; $self->begin(@arguments); return $self->read_response }

# Sends a request. Headers as for open(); ':body' is a string, or data to encode as JSON. The caller reads the response
# later.
sub begin
{
    my ($self, $method, $path, %headers) = @_;
    my $body = delete $headers{':body'};
    $body = $json->encode($body) if ref $body;
    %headers = (Host => $self->{host}, (defined $body ? ('Content-Length' => length $body) : ()), %headers);
    my $text = join '', map { "$_: $headers{$_}\r\n" } grep { defined $headers{$_} } sort keys %headers;
    $self->{is_head} = $method eq 'HEAD';
    $self->write("$method $path HTTP/1.1\r\n$text\r\n" . ($body // ''));
    return;
}

# Reads the next response, and leaves the bytes after it in {bytes}. A response without a length is read to the end.
sub read_response
{
    my ($self) = @_;
    1 until $self->{bytes} =~ /\r\n\r\n/ || !$self->more;
    my ($head, $rest) = split /\r\n\r\n/, $self->{bytes}, 2;
    my ($first, @lines) = split /\r\n/, $head // '';
    my ($status) = ($first // '') =~ m{^HTTP/1\.1 (\d+)};
    my %response = (status => $status // 0, headers => { map { /^(.*?): *(.*)$/ ? (lc $1, $2) : () } @lines });
    my $len = $self->{is_head} || $response{status} =~ /^1|204|304/ ? 0 : $response{headers}{'content-length'};
    $self->{bytes} = $rest // '';
    1 until defined $len && length $self->{bytes} >= $len || !$self->more;
    if ($response{status} !~ /^1/)
    {
        $response{body} = substr $self->{bytes}, 0, $len // length $self->{bytes}, '';
        $response{json}  = $json->decode($response{body})
          if length $response{body} && ($response{headers}{'content-type'} // '') =~ m{^application/(problem\+)?json$};
    }
    return $self->{response} = \%response;
}

# Writes the bytes unchanged; returns false after the relay has closed the connection.
sub write
{
    my ($self, $bytes) = @_;
    my $deadline = time() + $Clairon::Test::SECONDS;
    my $ready    = IO::Select->new($self->{link});
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes)
    {
        my $sent = syswrite $self->{link}, $bytes;
        if (defined $sent) { substr $bytes, 0, $sent, '' }
        elsif ($! != EAGAIN && $! != EINTR) { return 0 }
        else { $ready->can_write($deadline - time()) or time() < $deadline or die "the relay does not read\n" }
    }
    return 1;
}

# Waits for bytes and reads them; returns false at the end. A connection reset sets {reset}.
sub more
{
    my ($self) = @_;
    return 0 if $self->{eof};
    my $deadline = $self->{deadline} // time() + $Clairon::Test::SECONDS;
    # SIGCHLD may interrupt the wait.
    until (IO::Select->new($self->{link})->can_read($deadline > time() ? $deadline - time() : 0))
    {
        die 'the relay sends nothing; received: ' . $json->encode($self->{messages}) . "\n" if time() >= $deadline;
    }
    my $got = sysread $self->{link}, $self->{bytes}, 65536, length $self->{bytes};
    return 1 if $got || (!defined $got && ($! == EAGAIN || $! == EINTR));
    $self->{eof}   = 1;
    $self->{reset} = !defined $got;
    return 0;
}

# frame(TEXT, $payload): final => 0 for a fragment, masked => 0 for an unmasked frame, bits => 0x40 to set reserved
# bits, length => to announce a different length.
sub frame
{
    my ($self, $opcode, $payload, %options) = @_;
    my $len    = $options{length} // length $payload;
    my $masked = ($options{masked} // 1) ? 0x80 : 0;
    my $head   = chr($opcode | (($options{final} // 1) ? 0x80 : 0) | ($options{bits} // 0));
    $head .=
        $len < 126     ? chr($masked | $len)
      : $len < 0x10000 ? pack('Cn',  $masked | 126, $len)
      :                  pack('CQ>', $masked | 127, $len);
    return $self->write($head . $payload) unless $masked;
    my $mask = "\x12\x34\x56\x78";
    my $key  = substr $mask x (length($payload) / 4 + 1), 0, length $payload;
    return $self->write($head . $mask . ($payload ^ $key));
}

# Sends one text frame with one protocol frame per line.
sub send_json { my ($self, @messages) = @_; return $self->text(join "\n", map { $json->encode($_) } @messages) }
sub text { my ($self, $bytes) = @_; return $self->frame(TEXT, $bytes) }

# Returns the next WebSocket frame: { opcode, payload }; undef at the end of the connection.
sub next_frame
{
    my ($self) = @_;
    while (1)
    {
        my ($first, $second) = unpack 'CC', $self->{bytes};
        if (defined $second)
        {
            my $len = $second & 0x7f;
            my $at  = $len == 126 ? 4 : $len == 127 ? 10 : 2;
            if (length $self->{bytes} >= $at)
            {
                $len = unpack $at == 4 ? 'n' : 'Q>', substr $self->{bytes}, 2, $at - 2 if $at > 2;
                if (length $self->{bytes} >= $at + $len)
                {
                    my $payload = substr $self->{bytes}, $at, $len;
                    substr $self->{bytes}, 0, $at + $len, '';
                    return { opcode => $first & 0x0f, payload => $payload };
                }
            }
        }
        return undef unless $self->more;
    }
    return;
}

# Returns the relay's next protocol frame; dies if the connection ends first.
sub next_message
{
    my ($self) = @_;
    while (!@{ $self->{waiting} // [] })
    {
        my $frame = $self->next_frame // die "the relay closed the connection\n";
        next if $frame->{opcode} == PING || $frame->{opcode} == PONG;
        die 'the relay closed with ' . unpack('n', $frame->{payload}) . "\n" if $frame->{opcode} == CLOSE;
        push @{ $self->{waiting} }, map { $json->decode($_) } split /\n/, $frame->{payload};
    }
    my $line = shift @{ $self->{waiting} };
    push @{ $self->{messages} }, $line;
    return $line;
}

# Returns the next frame of this type; skips other frames.
sub wait_message
{
    my ($self, $type) = @_;
    my $line = $self->next_message;
    $line = $self->next_message until $line->{t} eq $type;
    return $line;
}

# Reads until the relay closes the connection, and replies to its close frame. Returns { code, reason, messages }, with
# the remaining frames. Code 1006: the relay closed the connection without a close frame.
sub read_to_end
{
    my ($self) = @_;
    my @lines = @{ delete $self->{waiting} // [] };
    my %end   = (code => 1006, reason => '');
    while (my $frame = $self->next_frame)
    {
        push @lines, map { $json->decode($_) } split /\n/, $frame->{payload} if $frame->{opcode} == TEXT;
        next if $frame->{opcode} != CLOSE;
        @end{ 'code', 'reason' } = unpack 'na*', $frame->{payload};
        $self->frame(CLOSE, pack 'n', $end{code});
        last;
    }
    CORE::close $self->{link};
    return { %end, messages => \@lines };
}

# Expects a bye and a WebSocket close frame, both with this code and a reason. Returns the bye.
sub ends_with
{
    my ($self, $code, $name) = @_;
    my $end = $self->read_to_end;
    is($end->{code}, $code, "$name closes the connection with $code");
    my $bye = $end->{messages}[-1] // {};
    is_deeply([ @{$bye}{ 't', 'code' } ], [ 'bye', $code ], "$name causes a bye with the same code");
    ok(length $end->{reason} && length $bye->{msg}, "$name causes a close frame and a bye with a reason");
    return $bye;
}

sub disconnect { my ($self) = @_; CORE::close $self->{link}; return }

1;
