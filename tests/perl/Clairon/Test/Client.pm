# Clairon::Test::Client: a WebSocket client, independent of the project's client, so that tests verify the protocol.
#
# All clients of a process share a loop, which runs while the test waits for one of them, or in run_for(). No library,
# because those of CPAN take longer to load than most tests run.
package Clairon::Test::Client;

use strict;
use warnings;

use Carp qw(croak);
use Digest::SHA qw(sha1_base64);
use Errno qw(EAGAIN EINTR);
use IO::Poll qw(POLLIN POLLOUT);
use IO::Socket::IP;
use JSON ();
use List::Util qw(max min);
use MIME::Base64 qw(encode_base64);
use Scalar::Util qw(refaddr weaken);
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

use constant { CONTINUATION => 0, TEXT => 1, BINARY => 2, CLOSE => 8, PING => 9, PONG => 10, TICK => 0.02 };

my $json = JSON->new->utf8->canonical;
my %open;      # the clients with a connection, by address
my @timers;    # [ time, code ]

$SIG{PIPE} = 'IGNORE';    # a write to a closed connection is an error

# Opens the WebSocket without sending a frame. Dies if the upgrade is rejected.
sub new
{
    my ($class, $url, %headers) = @_;
    my ($host, $port, $path) = $url =~ m{^http://(.*):(\d+)(/.*)$} or croak "not an http URL: $url";
    my $link = IO::Socket::IP->new(PeerHost => $host, PeerPort => $port, Timeout => $Clairon::Test::SECONDS)
      or die "WebSocket upgrade rejected: no response\n";
    setsockopt $link, IPPROTO_TCP, TCP_NODELAY, 1;
    $link->blocking(0);
    my $key  = encode_base64(join('', map { chr int rand 256 } 1 .. 16), '');
    my $self = bless { messages => [], seen => 0, link => $link, in => '', out => '', accept => sha1_base64("${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11") . '=' }, $class;
    weaken($open{ refaddr $self } = $self);
    %headers = (
        'Host' => "$host:$port", 'Upgrade' => 'websocket', 'Connection' => 'Upgrade', 'Sec-WebSocket-Key' => $key,
        'Sec-WebSocket-Version' => 13, 'Sec-WebSocket-Protocol' => 'clairon.v1.json', %headers);
    $self->write("GET $path HTTP/1.1\r\n" . join('', map { "$_: $headers{$_}\r\n" } sort keys %headers) . "\r\n");
    $self->run_until('the WebSocket is open', sub { !$self->{accept} || $self->{closed} });
    die "WebSocket upgrade rejected: $self->{rejected}\n" if defined $self->{rejected};
    die "WebSocket upgrade rejected: no response\n"       if $self->{accept};
    return $self;
}

# Closes the connection without a close frame.
sub abort
{
    my ($self) = @_;
    delete $open{ refaddr $self };
    my $link = delete $self->{link} or return;
    CORE::close $link;
    $self->{closed} //= $self->{close} // { code => 1006, reason => '' };
    return;
}

sub DESTROY { my ($self) = @_; delete $open{ refaddr $self }; return }

# Calls the code after this time, while the loop runs.
sub after { my ($seconds, $code) = @_; push @timers, [ time + $seconds, $code ]; return }

# Waits for at most this time until a client can read or write, then lets all such clients do so. Returns whether
# something has happened.
sub tick
{
    my ($seconds) = @_;
    my $now = time;
    my @due = grep { $_->[0] <= $now } @timers;
    @timers = grep { $_->[0] > $now } @timers if @due;
    $_->[1]->() for @due;
    my %client = map { (fileno $_->{link} => $_) } grep { defined } values %open;
    my @masks  = map { ($_ => POLLIN | (length $client{$_}{out} ? POLLOUT : 0)) } keys %client;
    if (!@masks) { select undef, undef, undef, $seconds; return @due > 0 }
    return @due > 0 if IO::Poll::_poll($seconds * 1000, @masks) <= 0;
    while (my ($fd, $events) = splice @masks, 0, 2)
    {
        my $client = $client{$fd};
        $client->flush if $events & POLLOUT && $client->{link};
        $client->read  if $events & ~POLLOUT && $client->{link};
    }
    return 1;
}

# Runs the loop for this time.
sub run_for
{
    my ($seconds) = @_;
    my $end = time + $seconds;
    while ((my $left = $end - time) > 0) { tick(min($left, TICK)) }
    return;
}

# Appends the bytes to the unsent bytes, and sends what the connection takes.
sub write
{
    my ($self, $bytes) = @_;
    $self->{out} .= $bytes;
    $self->flush if $self->{link};
    return;
}

sub flush
{
    my ($self) = @_;
    while (length $self->{out})
    {
        my $sent = syswrite $self->{link}, $self->{out}, 262144;
        if    (defined $sent)     { substr $self->{out}, 0, $sent, '' }
        elsif ($! == EAGAIN)      { return }
        elsif ($! != EINTR)       { $self->{out} = ''; return }    # read() reports the end
    }
    return;
}

sub read
{
    my ($self) = @_;
    my $got = sysread $self->{link}, $self->{in}, 262144, length $self->{in};
    return if !defined $got && ($! == EAGAIN || $! == EINTR);
    return $self->abort if !$got;
    return if $self->{accept} && !$self->read_response;
    $self->read_frames;
    return;
}

# Reads the response to the upgrade; returns whether the connection is a WebSocket now.
sub read_response
{
    my ($self) = @_;
    $self->{in} =~ s/\A(.*?)\r\n\r\n//s or return 0;
    my ($head)   = $1;
    my ($status) = $head =~ m{\AHTTP/1\.1 (\d+)};
    my $accept   = delete $self->{accept};
    $self->{rejected} = $status // 'invalid response' if ($status // 0) != 101;
    $self->{rejected} //= 'invalid accept key' if $head !~ /^Sec-WebSocket-Accept: *\Q$accept\E\r?$/mi;
    $self->abort if $self->{rejected};
    return !$self->{rejected};
}

sub read_frames
{
    my ($self) = @_;
    my $at = 0;
    while (length $self->{in} >= $at + 2)
    {
        my ($first, $len) = unpack 'CC', substr $self->{in}, $at, 2;
        # A server sets no reserved bit, masks no frame and sends no binary data.
        if ($first & 0x70 || $len & 0x80 || ($first & 0x0f) == BINARY) { $self->end(1002); return $self->abort }
        my $more = $len == 126 ? 2 : $len == 127 ? 8 : 0;
        last if length $self->{in} < $at + 2 + $more;
        $len = unpack $more == 2 ? 'n' : 'Q>', substr $self->{in}, $at + 2, $more if $more;
        last if length $self->{in} < $at + 2 + $more + $len;
        my $payload = substr $self->{in}, $at + 2 + $more, $len;
        $at += 2 + $more + $len;
        $self->receive($first & 0x0f, $first & 0x80, $payload);
        return if !$self->{link};
    }
    substr $self->{in}, 0, $at, '';
    return;
}

sub receive
{
    my ($self, $opcode, $is_final, $payload) = @_;
    if    ($opcode == PING) { $self->frame(PONG, $payload) }
    elsif ($opcode == CLOSE)
    {
        my ($code, $reason) = unpack 'na*', $payload;
        $self->{close} //= { code => $code // 1005, reason => $reason // '' };
        $self->frame(CLOSE, $payload) if !$self->{is_ended};
        $self->abort;
    }
    elsif ($opcode == TEXT || $opcode == CONTINUATION)
    {
        $self->{text} .= $payload;
        return if !$is_final;
        my $bytes = delete $self->{text};
        push @{ $self->{raw} }, $bytes;
        for my $line (grep { length } split /\n/, $bytes)
        {
            my $message = $json->decode($line);
            push @{ $self->{messages} }, $message;
            $self->frame(TEXT, '{"t":"pong"}') if $message->{t} eq 'ping' && !$self->{mute};
        }
    }
    return;
}

# Sends a masked frame.
sub frame
{
    my ($self, $opcode, $payload) = @_;
    my $len  = length $payload;
    my $mask = pack 'N', int rand 2**32;
    my $head = chr(0x80 | $opcode) . ($len < 126 ? chr(0x80 | $len) : $len < 0x10000 ? pack('Cn', 0x80 | 126, $len) : pack('CQ>', 0x80 | 127, $len));
    return $self->write($head . $mask . ($payload ^ substr $mask x ($len / 4 + 1), 0, $len));
}

# Sends a close frame.
sub end
{
    my ($self, $code) = @_;
    $self->{is_ended} = 1;
    $self->{close} //= { code => $code, reason => '' };
    return $self->frame(CLOSE, pack 'n', $code);
}

# Runs the loop until `$condition` is true; dies with `$what` at the deadline. The condition is evaluated when a client has
# received something, and at growing intervals, because it may query servers. A condition that takes long, for example
# because it looks at thousands of messages, uses a quarter of the time at most.
sub run_until
{
    my ($self, $what, $condition, $seconds) = @_;
    $seconds //= $Clairon::Test::SECONDS;
    my $begin = my $ended = time;
    my ($elapsed, $is_new) = (0, 1);
    while (1)
    {
        my $now = time;
        my $is_late = $now - $begin >= $seconds;
        if ($is_late || $now - $ended >= 3 * $elapsed && ($is_new || $now - $ended >= min(0.1, max(TICK, ($now - $begin) / 20))))
        {
            my $result = $condition->();
            return $result if $result;
            croak "not within $seconds s: $what; received: " . $self->transcript if $is_late;
            $ended   = time;
            $elapsed = $ended - $now;
            $is_new  = 0;
        }
        $is_new = 1 if tick(TICK);
    }
    return;
}

sub transcript
{
    my ($self) = @_;
    my $text = join ' ', map { $json->encode($_) } @{ $self->{messages} };
    $text .= ' closed ' . $json->encode($self->{closed}) if $self->{closed};
    return length $text > 2000 ? '...' . substr $text, -2000 : $text;
}

# Sends the connect frame and returns the reply: connected, err or bye. The caller checks the reply.
sub connect
{
    my ($self, $token, %fields) = @_;
    $self->send({ t => 'connect', r => 1, token => $token, %fields });
    return $self->wait_for(sub { $_[0]{t} =~ /^(connected|err|bye)$/ });
}

# send({t => ..}, ..) sends one WebSocket frame with one protocol frame per line. send_text sends any string.
sub send
{
    my ($self, @messages) = @_;
    return $self->send_text(join "\n", map { $json->encode($_) } @messages);
}

sub send_text
{
    my ($self, $bytes) = @_;
    $self->frame(TEXT, $bytes);
    $self->run_until('the frame is sent', sub { !length $self->{out} || $self->{closed} });
    return;
}

# Like send(), but does not run the loop, so a condition of run_until may call it.
sub send_now { my ($self, @messages) = @_; return $self->frame(TEXT, join "\n", map { $json->encode($_) } @messages) }

# Acknowledges all received notifications that it has not acknowledged yet. Does not run the loop either.
sub ack_received
{
    my ($self) = @_;
    my $messages = $self->{messages};
    my $from     = $self->{acked_messages} // 0;
    my @ids      = map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } @{$messages}[ $from .. $#$messages ];
    $self->send_now({ t => 'ack', ids => \@ids }) if @ids;
    $self->{acked_messages} = @$messages;
    return;
}

# An empty list means that the test did not wait for the notifications.
sub ack { my ($self, @ids) = @_; @ids or croak('no ids to acknowledge'); return $self->send({ t => 'ack', ids => \@ids }) }

# Waits for the first frame of a type, or the first frame for which a code reference returns true. Earlier frames
# match too.
sub wait_for
{
    my ($self, $wanted, $seconds) = @_;
    my $matches = ref $wanted ? $wanted : sub { $_[0]{t} eq $wanted };
    my $at = 0;
    my $found;
    $self->run_until(
        ref $wanted ? 'a matching message' : "a message \"$wanted\"",
        sub {
            while ($at < @{ $self->{messages} })
            {
                my $line = $self->{messages}[ $at++ ];
                return $found = $line if $matches->($line);
            }
            die 'connection closed during the wait; received: ' . $self->transcript . "\n" if $self->{closed};
            return 0;
        },
        $seconds);
    return $found;
}

# Waits for the notification of the row with this id. Earlier frames match too.
sub wait_row
{
    my ($self, $id) = @_;
    return $self->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{after}{id} // '') eq $id });
}

# Waits for at least `$count` notifications; returns all of them in order.
sub wait_notifications
{
    my ($self, $count, $seconds) = @_;
    $self->run_until("$count notifications", sub { $self->notifications >= $count || $self->{closed} }, $seconds);
    return $self->notifications;
}

sub notifications { return map { $_->{n} } grep { $_->{t} eq 'msg' } @{ $_[0]{messages} } }

# Returns the reasons of all announced gaps, separated by spaces; '' without a gap.
sub gaps { return join ' ', map { $_->{why} } grep { $_->{t} eq 'gap' } @{ $_[0]{messages} } }

# Returns the cursor (`pos`) of the last notification, or of the connected frame.
sub pos
{
    my ($self) = @_;
    my @with = grep { defined $_->{pos} } @{ $self->{messages} };
    return @with ? $with[-1]{pos} : undef;
}

# Waits until the relay closes the connection; returns the close code.
sub wait_closed
{
    my ($self, $seconds) = @_;
    $self->run_until('the relay closes the connection', sub { $self->{closed} }, $seconds);
    return $self->{closed}{code};
}

sub close
{
    my ($self) = @_;
    return if $self->{closed};
    $self->end(1000);
    $self->wait_closed;
    return;
}

1;
