# A feed's memory: is it bounded over a large transaction, large rows, a store that stands still, and what is read a second time?
use strict;
use warnings;

use Clairon::Test qw(wait_until is_sanitized);
use Test::More;

plan skip_all => "a sanitizer has memory of its own" if is_sanitized();

my $MOST = 32;    # MB, of which the program itself takes 10

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id bigserial PRIMARY KEY, body text NOT NULL);
    SELECT clairon.watch('t', 'ALL')});
my $store = Clairon::Test::store();
# Replicas that are not there: nothing is confirmed, so all is read again by the next one.
my $relay = Clairon::Test::relay($pg, $store, roles => 'feed',
    conf => { 'store.min_replicas' => 1, 'relay.log_level' => 'info' });
$relay->wait_for_log(qr/streaming from slot/);
my $rows  = 0;

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
cmp_ok(peak(), '<', $MOST, 'over a transaction of 60 MB');

insert(60, 900_000);
wait_stored();
cmp_ok(peak(), '<', $MOST, 'over rows of 900 kB');

kill STOP => $store->pid;
insert(60, 900_000);
my ($sent, $same) = ('', 0);
wait_until('no more is taken in', sub {
    my $now = $pg->safe_psql('postgres', 'SELECT sent_lsn FROM pg_stat_replication');
    ($sent, $same) = ($now, $now eq $sent ? $same + 1 : 0);
    return $same == 10;
});
cmp_ok(peak(), '<', $MOST, 'while the store stands still');
kill CONT => $store->pid;
wait_stored();

# All of it is read a second time, and then one row more.
$relay->kill9;
$relay->start;
insert(1, 10);
wait_stored();
cmp_ok(peak(), '<', $MOST, 'over what is read again');

done_testing();
