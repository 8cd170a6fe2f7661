# Clairon::Test::Torture: writers that commit in the background during a seeded schedule of faults.
package Clairon::Test::Torture;

use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use POSIX ();
use Test::More ();
use Time::HiRes qw(sleep time);

use constant WRITER_PAUSE => 0.1;    # seconds at most; without pauses the writers would use most of the CPU time

# Options: pg; seed; tables => [..] that the writers fill; pause => the longest pause in seconds; stored => a function
# that returns the number of stored rows.
sub new
{
    my ($class, %options) = @_;
    return bless { pause => 1, writers => [], stop_file => scratch() . '/stop', %options }, $class;
}

# Forks a process that repeats `$work` until stop() or the end of the test.
sub fork_until_stop
{
    my ($self, $number, $work) = @_;
    my $parent = $$;
    my $pid = fork // die "could not fork: $!";
    if ($pid == 0)
    {
        srand($self->{seed} + $number);
        $work->() while !-e $self->{stop_file} && getppid() == $parent;
        POSIX::_exit(0);
    }
    push @{ $self->{writers} }, $pid;
    return;
}

# A writer commits the transactions that `$next->()` returns as SQL. A failed psql is ignored, because the test compares
# the stored rows with the committed rows.
sub start_writer
{
    my ($self, $number, $next) = @_;
    my $connect = $self->{pg}->connstr('postgres');
    $self->fork_until_stop($number, sub {
        open STDOUT, '>', '/dev/null' or POSIX::_exit(1);
        open STDERR, '>', '/dev/null' or POSIX::_exit(1);
        system 'psql', '-qX', '-d', $connect, '-c', 'BEGIN; ' . $next->() . 'COMMIT';
        sleep rand WRITER_PAUSE;
    });
    return;
}

sub stop
{
    my ($self) = @_;
    open my $file, '>', $self->{stop_file} or die "could not write $self->{stop_file}: $!";
    close $file;
    waitpid $_, 0 for splice @{ $self->{writers} };
    return;
}

sub committed
{
    my ($self) = @_;
    my $counts = join ' + ', map { "(SELECT count(*) FROM $_)" } @{ $self->{tables} };
    return eval { $self->{pg}->safe_psql('postgres', "SELECT $counts") } // 0;
}

# Waits until this many more rows are committed.
sub wait_rows
{
    my ($self, $rows) = @_;
    my $from = $self->committed;
    wait_until("$rows more rows are committed", sub { $self->committed >= $from + $rows });
    return;
}

# Waits for a random time.
sub wait_random
{
    my ($self) = @_;
    my $until = time + rand $self->{pause};
    wait_until('a random time has passed', sub { time > $until });
    return;
}

sub pause
{
    my ($self, $pid) = @_;
    return unless $pid && kill STOP => $pid;
    $self->wait_random;
    kill CONT => $pid;
    return;
}

sub stored { my ($self) = @_; return eval { $self->{stored}->() } // 0 }

# Returns the faults of relays and PostgreSQL, by name.
sub common_faults
{
    my ($self, @relays) = @_;
    my $pg = $self->{pg};
    my $restart = sub { $_->is_alive or $_->start for @relays };
    # A paused walsender, a child of the postmaster, simulates a server that hangs.
    my $walsender = sub { return eval { $pg->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication LIMIT 1') } || undef };
    return (
        'a relay is killed' => sub { $relays[ rand @relays ]->kill9; $self->wait_rows(20); $restart->() },
        'both relays are killed' => sub { $_->kill9 for @relays; $self->wait_rows(20); $restart->() },
        'a relay is stopped' => sub { $relays[ rand @relays ]->stop; $restart->() },
        'a relay is paused' => sub { $self->pause($relays[ rand @relays ]->pid) },
        'both relays are paused, one after the other' => sub { $self->pause($_->pid) for @relays },
        'PostgreSQL crashes' => sub { $pg->stop('immediate'); $pg->start },
        'PostgreSQL restarts' => sub { $pg->restart },
        'the walsender is terminated' => sub {
            eval { $pg->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication') } },
        'the walsender is paused' => sub { $self->pause($walsender->()) });
}

# Runs this many random faults. Sometimes a fault starts before the recovery from the previous fault.
sub run
{
    my ($self, $count, %faults) = @_;
    my @names = sort keys %faults;
    my $begin = time;
    for my $fault (1 .. $count)
    {
        my $name = $names[ rand @names ];
        Test::More::note(sprintf '%5.1f s  fault %d: %s', time - $begin, $fault, $name);
        $faults{$name}->();
        next if rand() < 0.3;
        my ($stored, $since) = ($self->stored, time);
        wait_until("rows are stored again after fault $fault ($name)", sub { $self->stored > $stored });
        Test::More::note(sprintf '         rows are stored again after %.1f s', time - $since);
    }
    return;
}

# Returns table and id of the row of a stream entry.
sub row_of
{
    my ($entry) = @_;
    my ($table) = $entry->{data} =~ /"source":"(\w+)"/;
    my ($id)    = $entry->{data} =~ /"after":\{"id":(\d+)/;
    return "$table $id";
}

# Checks that each committed row has one stream entry with a unique id.
sub check_stored_once
{
    my ($self, @entries) = @_;
    my %stored;
    $stored{ row_of($_) }++ for @entries;
    my %committed = map { $_ => 1 } split /\n/, $self->{pg}->safe_psql('postgres',
        join ' UNION ALL ', map { "SELECT '$_ ' || id FROM $_" } @{ $self->{tables} });
    Test::More::is_deeply(\%stored, \%committed, 'each committed row is stored exactly once');
    my %ids = map { $_->{id} => 1 } @entries;
    Test::More::is(scalar CORE::keys %ids, scalar CORE::keys %committed, 'each row has a unique id');
    return;
}

sub check_commit_order
{
    my ($self, $stream, @entries) = @_;
    my @positions = map { substr $_->{route}, 8, 16 } @entries;
    Test::More::is(scalar(grep { $positions[$_] le $positions[ $_ - 1 ] } 1 .. $#positions), 0, "$stream is in commit order");
    return;
}

1;
