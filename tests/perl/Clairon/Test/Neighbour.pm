# Clairon::Test::Neighbour: two table owners without a role of clairon: `mallory`, whose work a test chooses, and `alice`,
# whose rows and commands are timed meanwhile. Each owns a schema of that name.
#
#   my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
#   my $honest = $neighbour->worst_delay('honest work', 'INSERT INTO mallory.t ..');
#   my $attack = $neighbour->worst_delay('attack', 'INSERT INTO mallory.t ..');
#   $neighbour->is_unnoticed('large rows', $attack, $honest);
#
# Delays are in seconds. They depend on the machine, so tests compare them with honest work of as many rows and bytes in
# the same run. The time for which a server waits for a CPU, because other tests run, does not count.
package Clairon::Test::Neighbour;

use strict;
use warnings;

use Clairon::Test;
use IO::Select ();
use IPC::Run ();
use List::Util qw(max sum);
use Test::More ();
use Time::HiRes qw(time);

# How much longer an attack may delay the neighbour than honest work does, in seconds.
our $SLACK = 1;

# Options: store => the relay's store, for store_longest(); user => the recipient of alice's rows; topics => those that
# this user's client receives.
sub new
{
    my ($class, $pg, $relay, %options) = @_;
    my $self = bless { pg => $pg, relay => $relay, store => $options{store}, user => $options{user} // 'alice', next => 0 }, $class;
    $pg->safe_psql('postgres', q{
        CREATE ROLE mallory LOGIN; CREATE SCHEMA mallory AUTHORIZATION mallory;
        CREATE ROLE alice LOGIN; CREATE SCHEMA alice AUTHORIZATION alice});
    $self->run_as('alice', q{
        CREATE TABLE alice.orders (id int PRIMARY KEY, owner text);
        SELECT clairon.watch('alice.orders', 'USER', 'owner')});
    $self->{client} = $relay->client($self->{user}, topics => $options{topics});
    $self->delay_of_row;
    return $self;
}

# Runs the statements as this owner and returns their output. Dies at an error.
sub run_as
{
    my ($self, $owner, $sql) = @_;
    my ($out, $err) = ('', '');
    IPC::Run::run($self->command($owner), '<', \$sql, '>', \$out, '2>', \$err) or die "$owner: $err\n";
    chomp $out;
    return $out;
}

sub command
{
    my ($self, $owner) = @_;
    return [ 'psql', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-d', $self->{pg}->connstr('postgres') . " user=$owner", '-f', '-' ];
}

# Commits a row of alice and returns the seconds until her client has received it.
sub delay_of_row
{
    my ($self) = @_;
    my $id = ++$self->{next};
    $self->run_as('alice', "INSERT INTO alice.orders VALUES ($id, '$self->{user}')");
    my @servers   = $self->servers;
    my @before    = map { cpu_times($_) } @servers;
    my $committed = time();
    my $client    = $self->{client};
    my $checked   = $self->{checked} //= 0;
    $client->run_until("row $id of alice is delivered", sub {
        my $messages = $client->{messages};
        for (; $checked < @$messages; $checked++)
        {
            my $message = $messages->[$checked];
            return 1 if $message->{t} eq 'msg' && ($message->{n}{payload}{after}{id} // 0) == $id;
        }
        return 0;
    }, 3 * $Clairon::Test::SECONDS);
    $self->{checked} = $checked;
    my $delay = time() - $committed;
    my @after = map { cpu_times($_) } @servers;
    my @used  = map { { run => $after[$_]{run} - $before[$_]{run}, wait => $after[$_]{wait} - $before[$_]{wait} } } 0 .. $#servers;
    return max $delay - sum(map { $_->{wait} } @used), map { $_->{run} } @used;
}

# The processes through which a row passes.
sub servers
{
    my ($self) = @_;
    return ($$, grep { $_ } $self->walsenders, $self->{relay}->pid, $self->{store} ? $self->{store}->pid : 0);
}

sub walsenders
{
    my ($self) = @_;
    return split /\n/, $self->{pg}->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'});
}

# The seconds for which the threads of a process have run, and for which they were ready to run, but waited for a CPU.
sub cpu_times
{
    my ($pid) = @_;
    my %times = (run => 0, wait => 0);
    for my $path (glob "/proc/$pid/task/*/schedstat")
    {
        open my $file, '<', $path or next;
        my ($run, $wait) = split ' ', <$file> // '0 0';
        $times{run}  += $run / 1e9;
        $times{wait} += $wait / 1e9;
    }
    return \%times;
}

# Runs the statements as mallory in the background. Meanwhile commits rows of alice, one at a time, and at least one
# after the statements' end. Returns the longest time until such a row was delivered.
sub worst_delay
{
    my ($self, $what, $sql) = @_;
    my $file = Clairon::Test::scratch() . '/neighbour.sql';
    $self->{relay}->write_file($file, $sql);
    my $command = join ' ', map { "'$_'" } @{ $self->command('mallory') }[ 0 .. 5 ];
    open my $pipe, '-|', "$command -f '$file' 2>&1 >/dev/null" or die "could not run psql: $!\n";
    my ($err, $worst, $ended) = ('', 0, 0);
    until ($ended)
    {
        $worst = max $worst, $self->delay_of_row;
        $ended = !sysread $pipe, $err, 65536, length $err while !$ended && IO::Select->new($pipe)->can_read(0);
    }
    die "$what: $err\n" if $err =~ /ERROR|FATAL|error:/;
    $worst = max $worst, $self->delay_of_row;
    Test::More::diag(sprintf '%s: the longest delay of a row of the neighbour is %.2f s', $what, $worst);
    return $worst;
}

# Tests that the neighbour's worst delay under an attack is at most SLACK seconds above that under honest work.
sub is_unnoticed
{
    my ($self, $what, $attack, $honest) = @_;
    return Test::More::cmp_ok($attack, '<=', $honest + $SLACK, "$what: rows of a neighbour are delayed no longer than by honest work");
}

# Tests the same of functions that do the work and return the neighbour's worst delay. A busy machine may stall a single
# row, so the work is repeated up to twice: an attack that delays rows does so each time.
sub remains_unnoticed
{
    my ($self, $what, $attack, $honest) = @_;
    my ($attacked, $compared) = (0, 0);
    for (1 .. 3)
    {
        $compared = max $compared, $honest->();
        $attacked = $attack->();
        last if $attacked <= $compared + $SLACK;
    }
    return $self->is_unnoticed($what, $attacked, $compared);
}

# Returns the largest anonymous memory of the walsenders, in MB.
sub walsender_memory
{
    my ($self) = @_;
    return max 0, map { memory_of($_) } $self->walsenders;
}

sub relay_memory { return memory_of($_[0]{relay}->pid) }

# The anonymous memory of a process in MB; 0 if it has ended.
sub memory_of
{
    my ($pid) = @_;
    open my $file, '<', "/proc/$pid/status" or return 0;
    my ($kilobytes) = join('', <$file>) =~ /^RssAnon:\s+(\d+) kB/m;
    return ($kilobytes // 0) / 1024;
}

# Begins to record slow commands of the store.
sub watch_store
{
    my ($self) = @_;
    $self->{store}->execute('CONFIG', 'SET', 'slowlog-log-slower-than', 1000);
    $self->{store}->execute('CONFIG', 'SET', 'slowlog-max-len',         10_000);
    $self->{store}->execute('SLOWLOG', 'RESET');
    $self->{watched_from} = cpu_times($self->{store}->pid);
    return;
}

# Returns the duration in ms of the longest command of the store since watch_store(), its first words, and for how many ms
# the store has waited for a CPU. The duration may include these.
sub store_longest
{
    my ($self) = @_;
    my ($longest, $words) = (0, '');
    for my $entry (@{ $self->{store}->execute('SLOWLOG', 'GET', 10_000) })
    {
        my (undef, undef, $us, $arguments) = @$entry;
        next if $arguments->[0] =~ /^(slowlog|config)$/i;
        ($longest, $words) = ($us / 1000, join ' ', map { substr $_, 0, 60 } grep { defined } @$arguments[ 0 .. 3 ]) if $us / 1000 > $longest;
    }
    my $waited = 1000 * (cpu_times($self->{store}->pid)->{wait} - $self->{watched_from}{wait});
    return wantarray ? ($longest, $words, $waited) : $longest;
}

1;
