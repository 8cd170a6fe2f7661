# Tests that rows are sent only from a snapshot that contains all changes delivered to the client, and that a membership
# change or a TRUNCATE sends `reload`.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} = 1 }    # see rows_contain_changes_of_two_shards.pl
use Clairon::Test qw(wait_until token);
use Clairon::Test::Client;
use Clairon::Test::StubRows;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    CREATE TABLE cut (id int PRIMARY KEY, owner text);
    ALTER TABLE cut REPLICA IDENTITY FULL;
    SELECT clairon.watch('cut', 'USER', 'owner', live => true)});
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s' });
my $next  = 10;

sub request { my ($client, %fields) = @_; $client->send({ t => 'rows', r => ++$next, %fields }); return $next }
sub reply { my ($client, $r) = @_; return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }
sub has_received { my ($client, $r) = @_; return scalar grep { ($_->{r} // 0) == $r } @{ $client->{messages} } }

# Returns whether the relay has replied, after the client has received all earlier frames.
sub has_reply
{
    my ($client, $r) = @_;
    my $pongs = sub { scalar grep { $_->{t} eq 'pong' } @{ $client->{messages} } };
    my $before = $pongs->();
    $client->send({ t => 'ping' });
    $client->run_until('the pong arrives', sub { $pongs->() > $before });
    return has_received($client, $r);
}

sub repeated { return $relay->metric('clairon_rows_repeated_total') }

# Waits until the relay has repeated its query this many times.
sub wait_repeated
{
    my ($more) = @_;
    my $before = repeated();
    wait_until('the relay queries again', sub { repeated() >= $before + $more });
    return;
}

# Returns a snapshot in which the transaction is still running.
sub snapshot_without { my ($xid) = @_; return sprintf '%s:%s:%s', $xid, $xid + 1, $xid }
sub snapshot_with { my ($xid) = @_; return sprintf '%s:%s:', $xid + 1, $xid + 1 }

sub insert
{
    my ($id, $owner) = @_;
    return $pg->safe_psql('postgres', "INSERT INTO t VALUES ($id, '$owner') RETURNING pg_current_xact_id()");
}

my $client = $relay->client('u1');
my $x      = insert(1, 'u1');
is($client->wait_row(1)->{x}, $x, 'the notification contains the id of its transaction');

# The change is not visible in the database yet, although the client received it.
$stub->set('t', snapshot => snapshot_without($x));
my $r = request($client, source => 't');
wait_repeated(2);
ok(!has_reply($client, $r), 'rows without a delivered change are not sent');
$stub->set('t', snapshot => snapshot_with($x));
is(reply($client, $r)->{snapshot}, snapshot_with($x), 'rows are sent from a snapshot that contains the change');

# The application loads its own rows and sends only their snapshot.
is(reply($client, request($client, source => 't', snapshot => snapshot_without($x)))->{ok}, JSON::false, 'a snapshot without the transaction is too old');
my $verdict = reply($client, request($client, source => 't', snapshot => snapshot_with($x)));
is_deeply([ sort keys %$verdict ], [qw(ok r t)], 'the reply contains only whether the snapshot is new enough');
is($verdict->{ok}, JSON::true, 'a snapshot with the transaction is new enough');

sub verdict_over_http
{
    my ($snapshot) = @_;
    return join ' ', $relay->get("/v1/rows?source=t&snapshot=$snapshot", Authorization => 'Bearer ' . token(sub => 'u1'));
}
is(verdict_over_http(snapshot_without($x)), qq(200 {"ok":false}\n), 'over HTTP, a snapshot without the transaction is too old');
is(verdict_over_http(snapshot_with($x)), qq(200 {"ok":true}\n), 'over HTTP, a snapshot with the transaction is new enough');
like(verdict_over_http($_), qr/^400 .*"snapshot.* must be/, 'an invalid snapshot returns 400: ' . substr $_, 0, 10)
    for '', '7', '7:6:', '1:2:' . join ',', (1) x 5000;

# A notification of another user also counts, because the cursor of the connection is after that notification.
my $other = insert(2, 'u2');
wait_until('the relay has read the notification', sub { $relay->metric('clairon_hub_notifications_total') >= 2 });
$stub->set('t', snapshot => snapshot_without($other));
$r = request($client, source => 't');
my $late = $relay->client('u3');
my $of_late = request($late, source => 't');
my $path = '/v1/rows?source=t';
wait_repeated(4);
ok(!has_reply($client, $r), 'rows are not sent from a snapshot without a transaction before the cursor');
ok(!has_reply($late, $of_late),
    'rows for a connection that starts after the change are not sent from a snapshot without it');
$stub->set('t', snapshot => snapshot_with($other));
is_deeply([ map { $_->{snapshot} } reply($client, $r), reply($late, $of_late) ], [ (snapshot_with($other)) x 2 ],
    'both clients receive rows from a snapshot that contains the change');
is(($relay->get($path, Authorization => 'Bearer ' . token(sub => 'u9')))[0], 200,
    'a request over HTTP receives rows from a snapshot that contains the change');

# The request is sent before `connected` has set the connection's cursor.
my $eager = Clairon::Test::Client->new($relay->url('/v1/ws'));
$eager->send({ t => 'connect', r => 1, token => token(sub => 'u1') }, { t => 'rows', r => 2, source => 't' });
is(reply($eager, 2)->{t}, 'rows', 'a request sent before the reply to connect is accepted');
is($eager->{messages}[0]{t}, 'connected', 'connected is the first reply');

# A user connects after a change of the user's memberships.
my $member = $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u5') RETURNING pg_current_xact_id()});
my $behind = insert(3, 'u2');
wait_until('the relay has read the membership', sub { $relay->metric('clairon_hub_notifications_total') >= 3 });
$stub->set('t', snapshot => sprintf '%s:%s:%s', $member, $behind + 1, $member);
my $new_member = $relay->client('u5');
my $repeated = repeated();
$r = request($new_member, source => 't');
$new_member->run_until('the relay has queried the database', sub { has_received($new_member, $r) || repeated() >= $repeated + 2 });
ok(!has_reply($new_member, $r), 'rows are not sent from a snapshot without the last membership of the user');
$stub->set('t', snapshot => snapshot_with($behind));
is(reply($new_member, $r)->{snapshot}, snapshot_with($behind), 'rows are sent from a snapshot that contains the membership');

# A membership changes.
$stub->set('t', snapshot => undef);
$stub->set('grp', audience => 'STRUCTURE+ROLE');
$stub->set('mine', audience => 'USER');
my $watcher = $relay->client('u1');
reply($_->[0], request($_->[0], source => $_->[1])) for [ $client, 'grp' ], [ $client, 'mine' ], [ $watcher, 'grp' ];
my $joined = $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u1') RETURNING pg_current_xact_id()});
my $reload = $client->wait_for('reload');
is_deeply($reload, { t => 'reload', source => 'grp', rule => 'default' }, 'a membership change causes the client to reload');
$stub->set('grp', snapshot => snapshot_without($joined));
$r = request($client, source => 'grp');
wait_repeated(1);
ok(!has_reply($client, $r), 'the reply after a reload waits for the change');
# A membership changes again while the request is pending.
my $left = $pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'u1' RETURNING pg_current_xact_id()});
$watcher->run_until('the relay has read the change', sub { 2 <= grep { $_->{t} eq 'reload' } @{ $watcher->{messages} } });
$stub->set('grp', snapshot => snapshot_with($joined));
wait_repeated(2);
ok(!has_reply($client, $r), 'the next reply waits for a change after the request');
$stub->set('grp', snapshot => snapshot_with($left));
is(reply($client, $r)->{snapshot}, snapshot_with($left), 'the next reply contains the change');

# A membership changes after a notification in the same transaction, and after the cursor of the request.
sub count_reloads { return scalar grep { $_->{t} eq 'reload' } @{ $watcher->{messages} } }
$stub->set('grp', snapshot => snapshot_without($left));
my $reloads = count_reloads();
$r = request($client, source => 'grp');
wait_repeated(1);
$joined = (split /\n/, $pg->safe_psql('postgres', q{BEGIN; INSERT INTO t VALUES (4, 'u1');
    INSERT INTO clairon.member VALUES ('ROLE', 'author', 'u1'); SELECT pg_current_xact_id(); COMMIT}))[-1];
$watcher->run_until('the relay has read the change', sub { count_reloads() > $reloads });
$stub->set('grp', snapshot => snapshot_without($joined));
wait_repeated(2);
ok(!has_reply($client, $r),
    'the next reply waits for a membership change after a notification in the same transaction');
$stub->set('grp', snapshot => snapshot_with($joined));
is(reply($client, $r)->{snapshot}, snapshot_with($joined), 'the next reply contains the change');

$stub->set('grp', snapshot => undef);
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('OTHER', 'o1', 'u1'), ('STRUCTURE', 's1', 'u2')});
reply($client, request($client, source => 'mine'));
my $second = $relay->client('u1');
reply($second, request($second, source => 'grp'));
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u1')});
$client->run_until('the next reload arrives', sub { 4 <= grep { $_->{t} eq 'reload' } @{ $client->{messages} } });
$second->wait_for('reload');
is(scalar(grep { $_->{t} eq 'reload' } @{ $client->{messages} }), 4, 'there is no reload for a completed request, other groups or other users');
is_deeply([ map { $_->{source} } grep { $_->{t} eq 'reload' } @{ $client->{messages} } ], [('grp') x 4], 'a list that does not depend on a group receives no reload');

# The rows that the application loads also depend on memberships.
my $own = $relay->client('u7');
reply($own, request($own, source => 'loaded', rule => 'mine', snapshot => snapshot_with($x)));
$joined = $pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u7') RETURNING pg_current_xact_id()});
is_deeply($own->wait_for('reload'), { t => 'reload', source => 'loaded', rule => 'mine' }, 'a membership change causes the client to reload the rows that it loaded itself');
is(reply($own, request($own, source => 'loaded', rule => 'mine', snapshot => snapshot_without($joined)))->{ok}, JSON::false,
    'a snapshot of the application without the change is too old');
is(reply($own, request($own, source => 'loaded', rule => 'mine', snapshot => snapshot_with($joined)))->{ok}, JSON::true, 'a snapshot of the application with the change is new enough');

# A table is truncated.
$stub->set('cut');
reply($client, request($client, source => 'cut'));
my $cut = $pg->safe_psql('postgres', q{BEGIN; TRUNCATE cut; SELECT pg_current_xact_id(); COMMIT});
$client->wait_for(sub { $_[0]{t} eq 'reload' && $_[0]{source} eq 'cut' });
$stub->set('cut', snapshot => snapshot_without($cut));
$r = request($client, source => 'cut');
wait_repeated(2);
ok(!has_reply($client, $r), 'the next reply waits for the TRUNCATE');
$relay->kill9;
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1');
$r      = request($client, source => 'cut');
wait_repeated(2);
ok(!has_reply($client, $r), 'the first reply of a restarted relay waits for the TRUNCATE');
$stub->set('cut', snapshot => snapshot_with($cut));
is(reply($client, $r)->{snapshot}, snapshot_with($cut), 'the reply is from a snapshot that contains the TRUNCATE');

done_testing();
