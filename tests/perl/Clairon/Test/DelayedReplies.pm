# Clairon::Test::DelayedReplies: a proxy in front of a store that delays selected replies, and all later replies on the
# same connection.
#
#   my $late  = Clairon::Test::delayed_replies($store->{socket});
#   my $relay = Clairon::Test::relay(undef, $late, roles => 'gate');
#   $late->hold(groups => '^SMEMBERS clairon:groups:u1$');   # delays the reply of the next matching command
#   $late->wait_held('groups');                              # waits until this reply is delayed
#   $late->release('groups');                                # forwards the reply and all later replies
#   $late->cut_link('^XREAD ');                              # closes connections with a pending XREAD
#
# A pattern is matched against the words of the command, joined by spaces. script('report') is the pattern for calls of
# that script.
package Clairon::Test::DelayedReplies;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Proxy';
use Clairon::Test::Proxy;
use Digest::SHA qw(sha1_hex);
use IO::Handle ();
use IO::Select ();

sub new
{
    my ($class, @rest) = @_;
    my $self = $class->SUPER::new(@rest);
    pipe $self->{events}, $self->{event_pipe} or die "could not make a pipe: $!";
    $self->{event_pipe}->autoflush(1);
    return $self;
}

sub loop_class { return 'Clairon::Test::DelayedReplies::Loop' }

# The methods of a store that Clairon::Test::relay() calls.
sub url    { return $_[0]->SUPER::url($_[1] // 'redis') }
sub shards { return $ENV{CLAIRON_TEST_SHARDS} || 1 }

# Returns a pattern for the command that calls this script, up to its arguments.
sub script { my ($self, $name) = @_; return '^EVALSHA ' . sha1_hex(Clairon::Test::script_text($name)) . ' ' }

sub hold    { my ($self, $name, $pattern) = @_; delete $self->{held}{$name}; return $self->done('hold', $name, $pattern) }
sub release { my ($self, $name) = @_; return $self->done('release', $name) }
sub cut_link { my ($self, $pattern) = @_; return $self->done('cut_link', $pattern) }

sub wait_held
{
    my ($self, $name) = @_;
    $self->read_event("the reply \"$name\" is delayed") until $self->{held}{$name};
    return;
}

sub done
{
    my ($self, @arguments) = @_;
    $self->order(@arguments);
    my $count = ++$self->{orders};
    $self->read_event("the proxy executes \"@arguments\"") until ($self->{done} // 0) >= $count;
    return;
}

sub read_event
{
    my ($self, $what) = @_;
    IO::Select->new($self->{events})->can_read($Clairon::Test::SECONDS) or die "not within $Clairon::Test::SECONDS s: $what\n";
    sysread $self->{events}, my $byte, 1 or die "the proxy has ended\n";
    $self->{line} .= $byte;
    return if $self->{line} !~ s/^(.*)\n//;
    if ($1 eq 'done') { $self->{done}++ }
    else                { $self->{held}{$1} = 1 }
    return;
}

package Clairon::Test::DelayedReplies::Loop;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Proxy::Loop';

sub new
{
    my ($class, $proxy, $orders) = @_;
    my $self = $class->SUPER::new($proxy, $orders);
    @{$self}{qw(event_pipe holds link)} = ($proxy->{event_pipe}, {}, {});
    return $self;
}

sub execute_orders
{
    my ($self) = @_;
    sysread $self->{orders}, my $bytes, 4096 or POSIX::_exit(0);    # the test has ended
    for my $line (split /\n/, $bytes)
    {
        my ($order, $value) = split / /, $line, 2;
        if    ($order eq 'hold')     { my ($name, $pattern) = split / /, $value, 2; $self->{holds}{$name} = qr/$pattern/s }
        elsif ($order eq 'release')  { $self->release($value) }
        elsif ($order eq 'cut_link') { $self->cut_link(qr/$value/s) }
        else                         { $self->execute_order($order, $value); next }
        print { $self->{event_pipe} } "done\n";
    }
    return;
}

sub release
{
    my ($self, $name) = @_;
    delete $self->{holds}{$name};
    for my $key (grep { ($self->{link}{$_}{held} // '') eq $name } keys %{ $self->{link} })
    {
        undef $self->{link}{$key}{held};
        $self->pass_replies($key);
    }
    return;
}

sub cut_link
{
    my ($self, $pattern) = @_;
    for my $key (keys %{ $self->{link} })
    {
        $self->drop($key) if grep { $_ =~ $pattern } @{ $self->{link}{$key}{requested} };
    }
    return;
}

# Handles the bytes of one side: records and forwards requests, and forwards replies one by one.
sub pass
{
    my ($self, $key, $bytes) = @_;
    my $client = $self->{is_server}{$key} ? $self->{peer}{$key} : $key;
    my $link   = $self->{link}{$client} //= { requested => [], requests => '', replies => '' };
    if ($key == $client)
    {
        $link->{requests} .= $bytes;
        while (defined(my $end = value_end(\$link->{requests}, 0)))
        {
            push @{ $link->{requested} }, arguments_of(substr $link->{requests}, 0, $end, '');
        }
        return $self->SUPER::pass($key, $bytes);
    }
    $link->{replies} .= $bytes;
    return $self->pass_replies($client);
}

sub pass_replies
{
    my ($self, $client) = @_;
    my $link = $self->{link}{$client};
    while (!$link->{held} && defined(my $end = value_end(\$link->{replies}, 0)))
    {
        my ($name) = grep { $link->{requested}[0] =~ $self->{holds}{$_} } sort keys %{ $self->{holds} };
        if (defined $name)
        {
            $link->{held} = $name;
            print { $self->{event_pipe} } "$name\n";
            return;
        }
        shift @{ $link->{requested} };
        $self->SUPER::pass($self->{peer}{$client}, substr $link->{replies}, 0, $end, '');
    }
    return;
}

sub drop
{
    my ($self, $key) = @_;
    my $peer = $self->{peer}{$key};
    delete $self->{link}{$_} for grep { defined } $key, $peer;
    return $self->SUPER::drop($key);
}

# Returns the end of the RESP value at that offset; undef if the value is incomplete.
sub value_end
{
    my ($text, $at) = @_;
    my $line_end = index $$text, "\r\n", $at;
    return if $line_end < 0;
    my ($kind, $number) = (substr($$text, $at, 1), substr($$text, $at + 1, $line_end - $at - 1));
    my $end = $line_end + 2;
    if ($kind eq '$' && $number >= 0)
    {
        $end += $number + 2;
        return $end <= length $$text ? $end : undef;
    }
    if ($kind eq '*')
    {
        for (1 .. $number) { $end = value_end($text, $end) // return }
    }
    return $end;
}

sub arguments_of
{
    my ($request) = @_;
    my ($at, @arguments) = (index($request, "\r\n") + 2);
    while ($at < length $request)
    {
        my $line_end = index $request, "\r\n", $at;
        my $len = substr $request, $at + 1, $line_end - $at - 1;
        push @arguments, substr $request, $line_end + 2, $len;
        $at = $line_end + 2 + $len + 2;
    }
    return join ' ', @arguments;
}

1;
