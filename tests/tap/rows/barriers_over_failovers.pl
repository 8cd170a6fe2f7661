# Tests GET /v1/barrier on a cluster store: on a standby, over a failover of the store, and over one of PostgreSQL.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE quiet (id int);
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}')});
my $standby = Clairon::Test::standby($pg);
my $cluster = Clairon::Test::store_cluster(shards => 4);
my %conf    = ('store.shards' => 4, 'rows.timeout' => '60s');
my $both    = sprintf q{host='%s,%s' port=%d,%d dbname=postgres user=relay target_session_attrs=read-write},
  $pg->host, $standby->host, $pg->port, $standby->port;
my $of_standby = $standby->connstr('postgres') . ' user=relay';
my $relay  = Clairon::Test::relay(undef, $cluster, conf => { %conf, 'feed.conninfo' => $both });
my $second = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { %conf, 'rows.conninfo' => $of_standby, 'rows.timeout' => '30s' });
my $hasty  = Clairon::Test::relay(undef, $cluster, roles => 'gate', conf => { %conf, 'rows.conninfo' => $of_standby, 'rows.timeout' => '1s' });
my $server = $pg;
my $id     = 0;

# A user on each shard; shard 0 has none.
my %user_of;
for (my $n = 1; keys %user_of < 3; $n++) { $user_of{ $cluster->shard_of("u$n") } //= "u$n" }
my @USERS = map { $user_of{$_} } sort keys %user_of;

sub sql { return $server->safe_psql('postgres', $_[0]) }
sub begin { my ($one, $user, $query) = @_;
    my $socket = Clairon::Test::RawSocket->new($one);
    $socket->begin(GET => "/v1/barrier$query", Authorization => 'Bearer ' . token(sub => $user));
    return $socket }
sub response { my ($socket) = @_; my $response = $socket->read_response; $response->{json} //= {}; return $response }
sub get { return response(begin(@_)) }
sub waits { my ($one, $count) = @_; return wait_until("$count barriers wait", sub { $one->metric('clairon_hub_waiting_barriers') == $count }) }

# One transaction with a row for each user.
sub commit { $id++; return (split /\n/, sql(sprintf 'INSERT INTO t VALUES %s RETURNING pg_current_xact_id()', join ', ', map { "($id$_, '$USERS[$_]')" } 0 .. $#USERS))[0] }

# The cursor is behind the last transaction before the request, which had this number.
sub check_cursor { my ($one, $nth, $response, $number, $name) = @_;
    is("$response->{status} " . ($response->{json}{committed} // 'unknown'), '200 1', "$name: the response") or diag $response->{body};
    my $client = $one->client($USERS[$nth], pos => $response->{json}{pos});
    ok($client->wait_for('connected')->{resumed}, "$name: the cursor is valid");
    commit();
    $client->wait_row("$id$nth");
    is(join(' ', grep { $_ <= "$number$nth" } map { $_->{payload}{after}{id} } $client->notifications), '', "$name: the cursor is behind the transaction");
    $client->close;
    return }

# All shards, and a relay without the feed.
for my $nth (0 .. $#USERS)
{
    check_cursor($_->[1], $nth, get($_->[1], $USERS[$nth], '?x=' . commit()), $id, "user $USERS[$nth], $_->[0]")
      for [ 'the relay with the feed' => $relay ], [ 'another relay' => $second ];
}
my $x = sql('INSERT INTO quiet VALUES (1) RETURNING pg_current_xact_id()');
is(join(' ', map { get($second, $_, "?x=$x")->{json}{committed} // 'none' } @USERS), '1 1 1', 'a transaction without notifications, on each shard');

# A standby that is behind.
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
wait_until('the replay is paused', sub { $standby->safe_psql('postgres', 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
$x = commit();
my $session     = $pg->background_psql('postgres');
my $rolled_back = $session->query_safe('BEGIN; INSERT INTO quiet VALUES (2) RETURNING pg_current_xact_id()');
$session->query_safe('ROLLBACK');
$session->quit;
my $never   = $rolled_back + 1_000_000;
my %waiting = map { $_ => begin($second, $USERS[1], "?x=$_") } $x, $rolled_back, $never;
waits($second, 3);
my $response = get($hasty, $USERS[1], "?x=$x");
is("$response->{status} $response->{json}{code}", '503 111', 'a standby that is behind does not know whether the id was assigned');
like($response->{headers}{'retry-after'}, qr/\A[1-9]\d*\z/, 'its response has a delay');
is(get($hasty, $USERS[1], '?x=2')->{status}, 400, 'an id that no transaction can have, on a standby');
$response = get($relay, $USERS[1], "?x=$never");
is("$response->{status} $response->{json}{code}", '400 107', 'the primary knows that an id was never assigned');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
check_cursor($second, 1, response($waiting{$x}), $id, 'a standby that has caught up');
$response = response($waiting{$rolled_back});
is("$response->{status} $response->{json}{committed}", '200 0', 'a standby knows that the transaction was rolled back');
is($second->metric('clairon_hub_waiting_barriers'), 1, 'the id that was never assigned still waits');
$waiting{$never}->disconnect;
waits($second, 0);
my $client = $hasty->client($USERS[1]);
$client->send({ t => 'barrier', r => 7, x => "$never" });
my $error = $client->wait_for(sub { ($_[0]{r} // 0) == 7 });
is("$error->{t} $error->{code}", 'err 111', 'the same on a WebSocket');
cmp_ok($error->{after}, '>', 0, 'the error has a delay');

# A primary of the store fails.
my $shard  = 1;
my $former = $cluster->primary_of($shard);
$cluster->wait_replicated;
$former->kill9;
$x = commit();
my $number   = $id;
my @requests = map { begin($_, $user_of{$shard}, "?x=$x") } $relay, $second;
my $elsewhere = begin($second, $user_of{2}, "?x=$x");
$cluster->wait_failover($shard, $former);
check_cursor($relay, $shard - 1, response($requests[0]), $number, 'the shard fails over, the relay with the feed');
check_cursor($second, $shard - 1, response($requests[1]), $number, 'the shard fails over, another relay');
is(response($elsewhere)->{status}, 200, 'a user of another shard');
$former->start;
$cluster->heal;

# The primary of PostgreSQL fails while positions of its timeline are waited for.
my $walsender = sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'});
kill STOP => $walsender;
$x = sql('INSERT INTO quiet VALUES (3) RETURNING pg_current_xact_id()');
@requests = map { begin($_, $USERS[2], "?x=$x") } $relay, $second;
waits($_, 1) for $relay, $second;
$pg->wait_for_catchup($standby);
$pg->stop('immediate');
push @requests, begin($relay, $USERS[2], '');
$server = $standby;
$standby->promote;
$response = response($requests[0]);
is("$response->{status} " . ($response->{json}{committed} // 'unknown'), '200 1', 'the relay whose primary failed');
check_cursor($second, 2, response($requests[1]), $id, 'the relay of the standby that was promoted');
is(response($requests[2])->{status}, 200, 'a request without a primary');
check_cursor($_->[1], 2, get($_->[1], $USERS[2], '?x=' . commit()), $id, "after the promotion, $_->[0]")
  for [ 'the relay with the feed' => $relay ], [ 'another relay' => $second ];

done_testing();
