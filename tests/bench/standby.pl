# Measures the CPU time that decoding costs the primary: with a slot on the primary, and with a slot on a standby.
#
# Needs PostgreSQL 16. All servers run on this machine, so wall times depend on the number of cores. The CPU time of the
# primary's processes does not depend on it.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

my $rows   = $ENV{BENCH_ROWS}   // 200_000;
my $rounds = $ENV{BENCH_ROUNDS} // 3;
my $ticks  = POSIX::sysconf(POSIX::_SC_CLK_TCK());

sub figure { note(sprintf 'bench: %-40s %s', @_); return }

if (qx{postgres --version} =~ / (\d+)/ && $1 < 16)
{
    plan skip_all => "PostgreSQL $1 cannot decode on a standby";
}

my $primary = Clairon::Test::postgresql('primary', conf => "wal_keep_size = 1GB\n");
my $store   = Clairon::Test::store();
$primary->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, owner text NOT NULL, body text NOT NULL);
    SELECT clairon.watch('t', 'USER', 'owner');
    CREATE PROCEDURE add_rows(n int) LANGUAGE plpgsql AS $$
    BEGIN
        FOR i IN 1 .. n / 10 LOOP
            INSERT INTO t (owner, body) SELECT 'u' || k, repeat('x', 200) FROM generate_series(1, 10) k;
            COMMIT;
        END LOOP;
    END $$});
my $standby = Clairon::Test::standby($primary);
my $connection = $primary->connstr('postgres');
my %relay = map {
    $_->name => Clairon::Test::relay($_, $store, start => 0, roles => 'feed', conf => {
            'relay.log_level' => 'info', 'store.prefix' => $_->name, 'feed.slot' => 'slot_of_' . $_->name,
            ($_ == $standby ? ('feed.primary_conninfo' => $connection) : ()) })
} $primary, $standby;

# Returns the CPU time of the primary: the postmaster, its children, and ended children.
sub primary_seconds
{
    my $postmaster = (split /\n/, PostgreSQL::Test::Utils::slurp_file($primary->data_dir . '/postmaster.pid'))[0];
    my $sum = 0;
    for my $pid ($postmaster, split ' ', qx{pgrep -P $postmaster})
    {
        my $stat = eval { PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat") } // next;
        my @fields = split ' ', $stat =~ s/^.*\) //sr;
        $sum += $fields[11] + $fields[12] + ($pid == $postmaster ? $fields[13] + $fields[14] : 0);
    }
    return $sum / $ticks;
}

# Writes rows while the relay of `$source` decodes, until the relay has stored all rows and the standby has replayed
# them.
sub run_once
{
    my ($source) = @_;
    my $relay = $relay{$source};
    if ($relay)
    {
        $relay->start;
        $relay->wait_for_log(qr/streaming from slot/);
    }
    my ($from, $cpu) = (time, primary_seconds());
    $primary->safe_psql('postgres', "CALL add_rows($rows)");
    my $wrote = time - $from;
    my $end   = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
    $primary->wait_for_catchup($standby, 'replay', $end);
    if ($relay)
    {
        my $newest = $primary->safe_psql('postgres', 'SELECT max(id) FROM t');
        wait_until('the last row is stored', sub {
            my $last = $store->execute('XREVRANGE', "$source:stream", '+', '-', 'COUNT', 1) or return 0;
            return "@{ $last->[0][1] }" =~ /"id":$newest,/ });
    }
    my $used = primary_seconds() - $cpu;
    if ($relay)
    {
        $relay->stop;
        ($source eq 'primary' ? $primary : $standby)->safe_psql('postgres', "SELECT pg_drop_replication_slot('slot_of_$source')");
    }
    $store->execute('FLUSHALL');
    return ($wrote, $used);
}

my %seen;
for my $round (1 .. $rounds)
{
    for my $source ('none', 'standby', 'primary')
    {
        my ($wrote, $used) = run_once($source);
        push @{ $seen{$source}{wrote} }, $wrote;
        push @{ $seen{$source}{used} },  $used;
    }
}
sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ $#sorted / 2 ] }
my $floor = median(@{ $seen{none}{used} });
figure("$rows rows, 10 per transaction, decoded on:", 'CPU of the primary, relative to no slot, time of the writer');
for my $source ('none', 'standby', 'primary')
{
    my ($used, $wrote) = map { median(@{ $seen{$source}{$_} }) } 'used', 'wrote';
    figure($source, sprintf '%.2f s, %.2f, %.2f s', $used, $used / $floor, $wrote);
}
pass('measured');
done_testing();
