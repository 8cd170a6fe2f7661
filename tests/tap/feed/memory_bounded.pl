# Tests that the memory of a feed is bounded with a large transaction, large rows, a stopped store, and replayed
# changes.
use strict;
use warnings;

use Clairon::Test qw(wait_until is_sanitized);
use Test::More;

plan skip_all => "a sanitizer allocates additional memory" if is_sanitized();

my $LIMIT_MB = 32;    # MB, including 10 MB for the program itself

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, body text NOT NULL);
    SELECT clairon.watch('t', 'ALL')});
my $store = Clairon::Test::store();
# Too few replicas are connected, so no LSN is confirmed, and the next feed reads all changes again.
my $relay = Clairon::Test::relay($pg, $store, roles => 'feed',
    conf => { 'store.min_replicas' => 1, 'relay.log_level' => 'info' });
$relay->wait_for_log(qr/streaming from slot/);
my $rows = 0;

sub insert
{
    my ($count, $bytes) = @_;
    $pg->safe_psql('postgres',
        "INSERT INTO t (body) SELECT repeat('x', $bytes) FROM generate_series(1, $count)");
    $rows += $count;
    return;
}

sub wait_stored
{
    wait_until("$rows rows are stored", sub { $store->stored == $rows });
    return;
}

sub peak
{
    open my $file, '<', '/proc/' . $relay->pid . '/status' or die "no such process: $!";
    my ($kb) = map { /^VmHWM:\s+(\d+)/ } <$file>;
    return $kb / 1024;
}

insert(60_000, 1000);
wait_stored();
cmp_ok(peak(), '<', $LIMIT_MB, 'memory is bounded for a transaction of 60 MB');

insert(60, 900_000);
wait_stored();
cmp_ok(peak(), '<', $LIMIT_MB, 'memory is bounded for rows of 900 kB');

$store->pause;
insert(60, 900_000);
my ($sent, $same) = ('', 0);
wait_until('the relay stops reading', sub {
    my $now = $pg->safe_psql('postgres', 'SELECT sent_lsn FROM pg_stat_replication');
    ($sent, $same) = ($now, $now eq $sent ? $same + 1 : 0);
    return $same == 10;
});
cmp_ok(peak(), '<', $LIMIT_MB, 'memory is bounded with a stopped store');
kill CONT => $store->pid;
wait_stored();

# The feed reads all rows again, and a new row.
$relay->kill9;
$relay->start;
insert(1, 10);
wait_stored();
cmp_ok(peak(), '<', $LIMIT_MB, 'memory is bounded for replayed rows');

done_testing();
