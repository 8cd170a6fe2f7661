# Tests that a client that resumes receives the end of an earlier transaction that a full in-flight window delayed, also if
# the transaction is acknowledged meanwhile, and whichever line was the last one that it received; and that no end is early
# if the client began in the middle of a transaction.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE duty (id int PRIMARY KEY, owner text);
    CREATE TABLE bulk (id serial, text text);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT clairon.watch('bulk', 'USER', '=nobody');
    SELECT clairon.watch('duty', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $id = 100;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub ends { my ($client, $x) = @_; return scalar grep { $_->{t} eq 'end' && $_->{x} eq $x } @{ $client->{messages} } }
sub pass_barrier { my ($client) = @_; my $r = ++$id; $client->send({ t => 'barrier', r => $r }); return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }

# The window of a new client has room for a part of the first transaction.
my ($first) = split /\n/, sql(q{INSERT INTO duty VALUES (1, 'u1'), (2, 'u1') RETURNING pg_current_xact_id()});
my $probe = $relay->client('u2');
pass_barrier($probe);
my $client = $relay->client('u1', win => 1, ends => JSON::true);
$client->wait_row(1);
my $of_pending = $client->pos;
sql(q{INSERT INTO t VALUES (3, 'u1')});
sql(q{INSERT INTO t VALUES (4, 'u1')});
$client->wait_row(4);
$client->run_until('two ends', sub { 2 <= grep { $_->{t} eq 'end' } @{ $client->{messages} } });
is(ends($client, $first), 0, 'the end of the first transaction waits for the pending list');
my %pos_of = (
    'the notification of the first transaction' => $of_pending,
    map { ($_->{t} eq 'end' ? "the end of transaction $_->{x}" : "row $_->{n}{payload}{after}{id}") => $_->{pos} }
        grep { $_->{t} eq 'end' || $_->{t} eq 'msg' && $_->{n}{payload}{after}{id} > 1 } @{ $client->{messages} });
$client->close;

# Another session acknowledges it.
my $other = $relay->client('u1');
$other->wait_row(2);
$other->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} <= 2 } $other->notifications);
wait_until('the acknowledgements are stored', sub { $store->pending == 0 });
$other->close;

for my $line (sort keys %pos_of)
{
    my $resumed = $relay->client('u1', win => 64, ends => JSON::true, pos => $pos_of{$line});
    pass_barrier($resumed);
    is($resumed->wait_for('connected')->{resumed}, JSON::true, "the client resumes behind $line");
    is(ends($resumed, $first), 1, "it receives the end of the first transaction behind $line");
    $resumed->close;
}

# A client begins while the second transaction has arrived in part. Its window has room for the first one only.
sql(q{INSERT INTO duty VALUES (11, 'u3')});
pass_barrier($probe);
my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
my $writer = $pg->background_psql('postgres');
my $x = $writer->query_safe(q{BEGIN; INSERT INTO duty VALUES (12, 'u3') RETURNING pg_current_xact_id()});
$writer->query_safe(q{INSERT INTO bulk (text) SELECT repeat(md5(i::text), 3000) FROM generate_series(1, 1000) i});
$writer->query_safe(q{INSERT INTO t VALUES (13, 'u3'); COMMIT});
wait_until('a part of the transaction is stored', sub { $store->pending == 2 });
kill 'STOP', $walsender;
my $new = $relay->client('u3', win => 1, ends => JSON::true);
$new->wait_row(11);
my $pos = $new->pos;
$new->close;
my $resumed = $relay->client('u3', win => 1, ends => JSON::true, pos => $pos);
$resumed->wait_row(11);
my $is_part = !grep { $_->{payload}{after}{id} == 13 } $resumed->notifications;
kill 'CONT', $walsender;
$resumed->wait_row(13);
pass_barrier($probe);
ok($is_part, 'the client begins in the middle of the transaction');
is(ends($resumed, $x), 0, 'its end waits for the notification in the pending list');
$resumed->run_until('the end', sub { $resumed->ack_received; ends($resumed, $x) });
is(join(' ', map { $_->{t} eq 'msg' ? $_->{n}{payload}{after}{id} : $_->{x} eq $x ? 'end' : () }
    grep { $_->{t} eq 'msg' || $_->{t} eq 'end' } @{ $resumed->{messages} }), '11 13 12 end', 'the end follows all notifications');
$writer->quit;

done_testing();
