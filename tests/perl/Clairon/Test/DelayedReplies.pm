# Clairon::Test::DelayedReplies: a proxy in front of a store that holds back single answers, and all that follow them on their link.
#
#   my $late  = Clairon::Test::delayed_replies($store->{socket});
#   my $relay = Clairon::Test::relay(undef, $late, roles => 'gate');
#   $late->hold(groups => '^SMEMBERS clairon:groups:u1$');   # from now on, by the words of the command that is answered
#   $late->wait_held('groups');                              # such an answer has come, and waits
#   $late->release('groups');                                # it goes on, and what came behind it
#   $late->cut_link('^XREAD ');                              # closes the links that wait for such an answer
#
# A command is matched as its words, with blanks between; a script by its name: script('report').
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
    pipe $self->{events}, $self->{teller} or die "could not make a pipe: $!";
    $self->{teller}->autoflush(1);
    return $self;
}

sub loop_class { return 'Clairon::Test::DelayedReplies::Loop' }

# As of a store, for Clairon::Test::relay().
sub url    { return $_[0]->SUPER::url($_[1] // 'redis') }
sub shards { return $ENV{CLAIRON_TEST_SHARDS} || 1 }

# The command of a call of that script, up to its arguments.
sub script { my ($self, $name) = @_; return '^EVALSHA ' . sha1_hex(Clairon::Test::script_text($name)) . ' ' }

sub hold    { my ($self, $name, $pattern) = @_; delete $self->{held}{$name}; return $self->obeyed('hold', $name, $pattern) }
sub release { my ($self, $name) = @_; return $self->obeyed('release', $name) }
sub cut_link { my ($self, $pattern) = @_; return $self->obeyed('cut_link', $pattern) }

sub wait_held
{
    my ($self, $name) = @_;
    $self->hear("the answer \"$name\" is held back") until $self->{held}{$name};
    return;
}

sub obeyed
{
    my ($self, @words) = @_;
    $self->order(@words);
    my $count = ++$self->{orders};
    $self->hear("the proxy obeys \"@words\"") until ($self->{obeyed} // 0) >= $count;
    return;
}

sub hear
{
    my ($self, $what) = @_;
    IO::Select->new($self->{events})->can_read($Clairon::Test::SECONDS) or die "not within $Clairon::Test::SECONDS s: $what\n";
    sysread $self->{events}, my $byte, 1 or die "the proxy is gone\n";
    $self->{line} .= $byte;
    return if $self->{line} !~ s/^(.*)\n//;
    if ($1 eq 'obeyed') { $self->{obeyed}++ }
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
    @{$self}{qw(teller holds link)} = ($proxy->{teller}, {}, {});
    return $self;
}

sub obey
{
    my ($self) = @_;
    sysread $self->{orders}, my $bytes, 4096 or POSIX::_exit(0);    # the test is gone
    for my $line (split /\n/, $bytes)
    {
        my ($order, $value) = split / /, $line, 2;
        if    ($order eq 'hold')     { my ($name, $pattern) = split / /, $value, 2; $self->{holds}{$name} = qr/$pattern/s }
        elsif ($order eq 'release')  { $self->release($value) }
        elsif ($order eq 'cut_link') { $self->cut_link(qr/$value/s) }
        else                         { $self->obey_order($order, $value); next }
        print { $self->{teller} } "obeyed\n";
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
        $self->pass_answers($key);
    }
    return;
}

sub cut_link
{
    my ($self, $pattern) = @_;
    for my $key (keys %{ $self->{link} })
    {
        $self->drop($key) if grep { $_ =~ $pattern } @{ $self->{link}{$key}{asked} };
    }
    return;
}

# Bytes that came from one side: requests are noted and go on, answers go on one by one.
sub pass
{
    my ($self, $key, $bytes) = @_;
    my $client = $self->{is_server}{$key} ? $self->{peer}{$key} : $key;
    my $link   = $self->{link}{$client} //= { asked => [], requests => '', answers => '' };
    if ($key == $client)
    {
        $link->{requests} .= $bytes;
        while (defined(my $end = value_end(\$link->{requests}, 0)))
        {
            push @{ $link->{asked} }, words_of(substr $link->{requests}, 0, $end, '');
        }
        return $self->SUPER::pass($key, $bytes);
    }
    $link->{answers} .= $bytes;
    return $self->pass_answers($client);
}

sub pass_answers
{
    my ($self, $client) = @_;
    my $link = $self->{link}{$client};
    while (!$link->{held} && defined(my $end = value_end(\$link->{answers}, 0)))
    {
        my ($name) = grep { $link->{asked}[0] =~ $self->{holds}{$_} } sort keys %{ $self->{holds} };
        if (defined $name)
        {
            $link->{held} = $name;
            print { $self->{teller} } "$name\n";
            return;
        }
        shift @{ $link->{asked} };
        $self->SUPER::pass($self->{peer}{$client}, substr $link->{answers}, 0, $end, '');
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

# Where the value of the Redis protocol that begins there ends; undef: not all of it is there.
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

sub words_of
{
    my ($request) = @_;
    my ($at, @words) = (index($request, "\r\n") + 2);
    while ($at < length $request)
    {
        my $line_end = index $request, "\r\n", $at;
        my $len = substr $request, $at + 1, $line_end - $at - 1;
        push @words, substr $request, $line_end + 2, $len;
        $at = $line_end + 2 + $len + 2;
    }
    return join ' ', @words;
}

1;
