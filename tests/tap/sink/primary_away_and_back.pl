# Tests that receipts wait while the primary is away or not writable, without delaying anything else, and that the receipts
# of the last hour are inserted again after PostgreSQL went back.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Receipts;
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $target   = Clairon::Test::Cluster->new('target');
$target->init(extension => 1);
$target->append_conf('postgresql.conf', Clairon::Test::server_settings($target));
Clairon::Test::remember($target);
$target->start;
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($target, $store);
my $conninfo = $target->connstr('postgres') . ' user=relay';
my $relay    = Clairon::Test::relay($pg, $store, conf => { 'receipts.sql' => 'true', 'receipts.conninfo' => $conninfo });

sub metric { my ($name) = @_; return $relay->metric(qq(clairon_sink_$name\{sink="sql"\})) }

# Sends a notification, which must arrive although the sink waits.
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); SELECT clairon.watch('t', 'USER', 'owner')});
my $client = $relay->client('u1');
my $row    = 0;

sub check_served
{
    my ($while) = @_;
    $row++;
    $pg->safe_psql('postgres', "INSERT INTO t VALUES ($row, 'u1')");
    $client->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{payload}{after}{id} == $row });
    is(($relay->get('/readyz?need=feed'))[0], 200, "the relay is ready and delivers while $while");
    return;
}

$receipts->add_many(10);
$receipts->wait_all;
$target->backup('base');

# The primary is away.
$target->stop('immediate');
$relay->wait_for_log(qr/msg="connection to the primary lost" sink="sql"/);
$receipts->add_many(2500);
# A store before Redis 7 counts a thousand entries at most.
my $counted = $ENV{STORE_SERVER} =~ /keydb/ ? 1000 : 2500;
wait_until('the backlog is known', sub { metric('backlog_receipts') >= $counted });
cmp_ok(metric('oldest_seconds'), '>', 0, 'the age of the oldest receipt is known');
cmp_ok(metric('failures_total'), '>', 0, 'failures are counted');
check_served('the primary is away');
$target->start;
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'receipts from the outage are inserted');
$relay->wait_for_log(qr/msg="sink takes receipts again" sink="sql"/);

# The table is locked.
my $locker = $target->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE clairon.receipt');
$receipts->add_many(10);
wait_until('an insert waits', sub { $target->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE NOT granted}) > 0 });
check_served('the table is locked');
$locker->query_safe('COMMIT');
$locker->quit;
$receipts->wait_all;

# The server is read-only for a while, as after a failover to another server.
my $mark = $relay->log_mark;
$target->safe_psql('postgres', q{ALTER SYSTEM SET default_transaction_read_only = on});
$target->reload;
$receipts->add_many(10);
$relay->wait_for_log(qr/msg="could not insert receipts" sink="sql" .*hint="\[receipts\] conninfo must name the primary"/, from => $mark);
$target->safe_psql('postgres', q{SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only});
$target->reload;
$receipts->wait_all;
wait_until('nothing is pending', sub { $receipts->pending('sql') == 0 });
is_deeply([ $receipts->differences ], [], 'receipts are inserted when the server is writable again');

# PostgreSQL is replaced by an older copy.
$target->stop;
my $older = Clairon::Test::Cluster->new('older', port => $target->port, host => $target->host);
$older->init_from_backup($target, 'base');
Clairon::Test::remember($older);
$older->start;
$receipts->{pg} = $older;
$relay->wait_for_log(qr/msg="database went back: sending the receipts of the last hour again" sink="sql"/);
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'the receipts that the older copy lacks are inserted again');
$receipts->add_many(5);
$receipts->wait_all;
wait_until('nothing is pending', sub { $receipts->pending('sql') == 0 });

# A standby is promoted: another timeline.
$mark = $relay->log_mark;
$older->safe_psql('postgres', 'DELETE FROM clairon.receipt WHERE user_id <> $$u1$$');
$older->stop;
open my $signal, '>', $older->data_dir . '/standby.signal' or die "could not create the file: $!";
close $signal;
$older->start;
$older->promote;
$relay->wait_for_log(qr/msg="database went back/, from => $mark);
$receipts->wait_all;
is_deeply([ $receipts->differences ], [], 'the receipts of the last hour are inserted again after a promotion');
check_served('at the end');
done_testing();
