# Clairon::Test::Clock: advances the clocks of processes, for what they do rarely.
#
#   my $clock = Clairon::Test::Clock->new;
#   my $relay = $clock->start(sub { Clairon::Test::relay($pg, $store) });
#   $clock->advance(3600);
#
# To a process this looks as if it had been stopped for that time: its requests in flight time out. A relay with a sanitizer
# keeps its own clock, because the sanitizer must be its first library: advance_until() then only waits.
package Clairon::Test::Clock;

use strict;
use warnings;

use Clairon::Test qw(program scratch top wait_until);

sub is_usable { return qx{nm -D '@{[ program() ]}'} !~ /__asan_init/ }

sub new
{
    my ($class) = @_;
    my $self = bless { library => scratch() . '/advanced_clock.so', file => scratch() . '/clock', seconds => 0 }, $class;
    system('cc', '-shared', '-fPIC', '-O2', '-o', $self->{library}, top() . '/tests/tools/advanced_clock.c') == 0 or die "could not compile the clock\n";
    $self->advance(0);
    return $self;
}

# Advances the clocks further. Processes map the file, so its content is replaced in place.
sub advance
{
    my ($self, $seconds) = @_;
    $self->{seconds} += $seconds;
    open my $file, -e $self->{file} ? '+<' : '>', $self->{file} or die "could not write: $!";
    syswrite $file, pack 'q<', $self->{seconds};
    close $file;
    return;
}

# Calls the function, which starts processes with this clock.
sub start
{
    my ($self, $start) = @_;
    return $start->() unless is_usable();
    local @ENV{qw(LD_PRELOAD CLAIRON_TEST_CLOCK)} = @$self{qw(library file)};
    return $start->();
}

# Advances the clocks by these seconds, again and again, until the condition is true.
sub advance_until
{
    my ($self, $seconds, $name, $condition) = @_;
    my $next = 0;
    return wait_until($name, sub {
        return 1 if $condition->();
        return if time < $next;
        $self->advance($seconds);
        $next = time + 3;
        return;
    });
}

1;
