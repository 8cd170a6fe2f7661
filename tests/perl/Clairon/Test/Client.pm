# Clairon::Test::Client: a WebSocket client, independent of the project's client, so that tests verify the protocol.
package Clairon::Test::Client;

use strict;
use warnings;

use Carp qw(croak);
use JSON ();
use Mojo::IOLoop;
use Mojo::UserAgent;
use Time::HiRes qw(time);

my $json = JSON->new->utf8->canonical;

# Opens the WebSocket without sending a frame. Dies if the upgrade is rejected.
sub new
{
    my ($class, $url, %headers) = @_;
    my $self  = bless { messages => [], seen => 0, agent => Mojo::UserAgent->new }, $class;
    my $agent = $self->{agent};
    $agent->connect_timeout($Clairon::Test::SECONDS)->inactivity_timeout(0)->max_redirects(0);
    my ($done, $rejected);
    $agent->websocket(
        $url => \%headers => ['clairon.v1.json'] => sub {
            my (undef, $tx) = @_;
            $done = 1;
            if (!$tx->is_websocket)
            {
                $rejected = $tx->res->code // 'no response';
                return;
            }
            $self->attach($tx);
        });
    $self->run_until('the WebSocket is open', sub { $done });
    die "WebSocket upgrade rejected: $rejected\n" if defined $rejected;
    return $self;
}

sub attach
{
    my ($self, $tx) = @_;
    $tx->max_websocket_size(16 * 1024 * 1024);
    $self->{tx} = $tx;
    $tx->on(text => sub {
        my (undef, $bytes) = @_;
        push @{ $self->{raw} }, $bytes;
        for my $line (grep { length } split /\n/, $bytes)
        {
            my $message = $json->decode($line);
            push @{ $self->{messages} }, $message;
            # send() would run the event loop again, although this callback already runs in the loop.
            $tx->send([ 1, 0, 0, 0, 1, '{"t":"pong"}' ])
              if $message->{t} eq 'ping' && !$self->{mute};
        }
    });
    $tx->on(finish => sub {
        my (undef, $code, $reason) = @_;
        $self->{closed} = { code => $code // 1006, reason => $reason // '' };
    });
    return;
}

# Runs the event loop until `$condition` is true; dies with `$what` at the deadline. A condition that takes long, for
# example because it looks at thousands of messages, is evaluated less often, so that it uses a third of the time at most.
sub run_until
{
    my ($self, $what, $condition, $seconds) = @_;
    $seconds //= $Clairon::Test::SECONDS;
    my $late  = 0;
    my $timer = Mojo::IOLoop->timer($seconds => sub { $late = 1 });
    # The timer ends a loop iteration even without an event of the client.
    my $tick = Mojo::IOLoop->recurring(0.02 => sub { });
    my ($result, $next) = (undef, 0);
    while (1)
    {
        my $began = time;
        if ($began >= $next || $late)
        {
            last if ($result = $condition->()) || $late;
            my $ended = time;
            $next = $ended + 2 * ($ended - $began);
        }
        Mojo::IOLoop->one_tick;
    }
    Mojo::IOLoop->remove($_) for $timer, $tick;
    croak "not within $seconds s: $what; received: " . $self->transcript unless $result;
    return $result;
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
    my $is_sent;
    $self->{tx}->send([ 1, 0, 0, 0, 1, $bytes ], sub { $is_sent = 1 });
    $self->run_until('the frame is sent', sub { $is_sent || $self->{closed} });
    return;
}

# Acknowledges all received notifications that it has not acknowledged yet. Unlike ack, it does not run the client's
# loop, so a condition of run_until may call it.
sub ack_received
{
    my ($self) = @_;
    my $messages = $self->{messages};
    my $from     = $self->{acked_messages} // 0;
    my @ids      = map { $_->{n}{metadata}{id} } grep { $_->{t} eq 'msg' } @{$messages}[ $from .. $#$messages ];
    $self->{tx}->send([ 1, 0, 0, 0, 1, $json->encode({ t => 'ack', ids => \@ids }) ]) if @ids;
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
    $self->{tx}->finish(1000);
    $self->wait_closed;
    return;
}

1;
