# Tests what a barrier waits for: the feed, the reader of another relay, a store that restarts, a full in-flight window,
# also of a new session, and a standby that is behind; and that 1 000 sessions share queries.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "log_statement = 'all'\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE quiet (id int);
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE duty (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', operations => '{create}');
    SELECT clairon.watch('duty', 'USER', 'owner', operations => '{create}', ack_required => true)});
my $standby = Clairon::Test::standby($pg);
my $store   = Clairon::Test::store();
my $proxy   = Clairon::Test::proxy($store->{socket});
my %conf    = ('rows.timeout' => '60s');
my $relay   = Clairon::Test::relay($pg, $store, conf => { %conf, 'delivery.ack_timeout' => '1h' });
my $second  = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { %conf, 'store.url' => $proxy->url('redis'), 'rows.conninfo' => $standby->connstr('postgres') . ' user=relay' });
my $id = 100;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub request { my ($client, %fields) = @_; $client->send({ t => 'barrier', r => ++$id, %fields }); return $id }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub has_reply { my ($client, $r) = @_; return scalar grep { ($_->{r} // 0) == $r } @{ $client->{messages} } }
sub waits { my ($one, $count) = @_; return wait_until("$count barriers wait", sub { $one->metric('clairon_hub_waiting_barriers') == $count }) }
sub last_row { my ($client) = @_; return [ $client->notifications ]->[-1]{payload}{after}{id} }
sub walsender { return sql(q{SELECT active_pid FROM pg_replication_slots WHERE slot_name = 'clairon'}) }

# The feed reads nothing.
my $client = $relay->client('u1');
my $pid    = walsender();
kill 'STOP', $pid;
my $x = sql(q{INSERT INTO t VALUES (1, 'u1') RETURNING pg_current_xact_id()});
my @requests = (request($client), request($client, x => $x));
waits($relay, 2);
ok(!has_reply($client, $_), 'a barrier waits for the feed') for @requests;
kill 'CONT', $pid;
is(reply($client, $requests[0])->{t}, 'barrier', 'the reply without a transaction follows');
ok(reply($client, $requests[1])->{committed}, 'the reply with a transaction follows');
is(last_row($client), 1, 'the row precedes both replies');

# The other relay does not read the store.
my $other = $second->client('u1');
$proxy->freeze;
$x = sql(q{INSERT INTO t VALUES (2, 'u1') RETURNING pg_current_xact_id()});
my $r = request($other, x => $x);
waits($second, 1);
ok(reply($client, request($client, x => $x))->{committed}, 'the relay with the feed replies');
ok(!has_reply($other, $r), 'a relay that has not read the notifications does not');
$proxy->thaw;
ok(reply($other, $r)->{committed}, 'it replies when it has read them');
is(last_row($other), 2, 'the row precedes the reply');

# The standby has not replayed the transaction.
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
wait_until('the replay is paused', sub { $standby->safe_psql('postgres', 'SELECT pg_get_wal_replay_pause_state()') eq 'paused' });
$x = sql(q{INSERT INTO t VALUES (3, 'u1') RETURNING pg_current_xact_id()});
$r = request($other, x => $x);
$other->wait_row(3);
waits($second, 1);
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
ok(reply($other, $r)->{committed}, 'a standby learns how the transaction has ended');
my $quiet = sql(q{INSERT INTO quiet VALUES (1) RETURNING pg_current_xact_id()});
ok(reply($other, request($other, x => $quiet))->{committed}, 'a transaction without notifications, from a standby');

# The in-flight window is full.
my $small = $relay->client('u2', win => 1);
$x = sql(q{INSERT INTO duty SELECT i, 'u2' FROM generate_series(1, 3) i RETURNING pg_current_xact_id()}) =~ s/\n.*//sr;
$r = request($small, x => $x);
$small->wait_notifications(1);
ok(reply($client, request($client, x => $x))->{committed}, 'another session has its reply');
ok(!has_reply($small, $r), 'the reply waits for what the in-flight window holds back');
$small->run_until('the reply', sub { $small->ack_received; has_reply($small, $r) });
is(scalar $small->notifications, 3, 'all notifications precede the reply');

# The pending list of a new session exceeds its in-flight window.
sql(q{INSERT INTO duty SELECT i, 'u3' FROM generate_series(11, 13) i});
reply($client, request($client));
my $new = $relay->client('u3', win => 1);
$new->wait_notifications(1);
$r = request($new);
reply($client, request($client));
is(scalar $new->notifications, 1, 'the in-flight window is full');
ok(!has_reply($new, $r), 'the reply waits for the rest of the pending list');
$new->run_until('the reply', sub { $new->ack_received; has_reply($new, $r) });
is(scalar $new->notifications, 3, 'the whole pending list precedes the reply');

# The store restarts.
$pid = walsender();
kill 'STOP', $pid;
$x = sql(q{INSERT INTO t VALUES (4, 'u1') RETURNING pg_current_xact_id()});
$r = request($client, x => $x);
waits($relay, 1);
$store->restart;
kill 'CONT', $pid;
ok(reply($client, $r)->{committed}, 'a barrier outlives a restart of the store');
is(last_row($client), 4, 'the row precedes the reply');

# Many sessions.
my $count   = Clairon::Test::amount(300, 1000);
my @many    = map { $relay->client('many') } 1 .. $count;
my $blocker = $pg->background_psql('postgres');
$x = $blocker->query_safe(q{BEGIN; INSERT INTO t VALUES (5, 'many') RETURNING pg_current_xact_id()});
my %of = map { $_ => request($many[$_], x => $x) } 0 .. $#many;
waits($relay, $count);
my $queries = sub { scalar(() = slurp_file($pg->logfile) =~ /execute <unnamed>: SELECT clairon\.live_position/g) };
my $before  = $queries->();
$blocker->query_safe('COMMIT');
my $replies = grep { reply($many[$_], $of{$_})->{committed} } 0 .. $#many;
is($replies, $count, 'each session has its reply');
is((grep { last_row($_) == 5 } @many), $count, 'the row precedes each reply');
cmp_ok($queries->() - $before, '<', $count / 3, 'sessions share queries');
$blocker->quit;

# The standby is promoted, and the feed follows: positions of the former timeline do not count.
$_->close for @many, $small, $new;
$pg->wait_for_catchup($standby);
$pg->stop('immediate');
$r = request($client);
$standby->promote;
$standby->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
$relay->stop;
$relay->configure('feed.conninfo' => $standby->connstr('postgres') . ' user=relay');
$relay->start;
$relay->wait_ready;
$other->wait_for('gap');    # the new slot begins behind the end of the former one
$x = $standby->safe_psql('postgres', q{INSERT INTO t VALUES (6, 'u1') RETURNING pg_current_xact_id()});
ok(reply($other, request($other, x => $x))->{committed}, 'a barrier after a promotion');
is(last_row($other), 6, 'the row precedes the reply');

done_testing();
