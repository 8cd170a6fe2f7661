# Tests that only admins can use the live tail, the user view and the test notification of the console, and that they
# return only the displayed data.
use strict;
use warnings;

use Clairon::Test qw(wait_until token of_mark);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.console' => 'on', 'gate.origins' => 'https://app.example', 'delivery.ack_timeout' => '10m' });
my $without = Clairon::Test::relay(undef, $store, roles => 'gate');

sub http
{
    my ($method, $path, %options) = @_;
    my %claims = (sub => 'root', admin => JSON::true, %{ $options{claims} // {} });
    return Clairon::Test::RawSocket->new($options{relay} // $relay)->request($method, $path, Host => 'x', ':body' => $options{body},
        (($options{token} // 1) ? (Authorization => 'Bearer ' . token(%claims)) : ()), %{ $options{headers} // {} });
}
sub latest { my ($query) = @_; return @{ http(GET => '/v1/console/latest' . ($query // ''))->{json}{latest} } }
sub user { my ($id) = @_; return http(GET => "/v1/console/user?id=$id")->{json} }
sub notify { my ($targets, $topic, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$targets}', '{\"secret\": \"payload\"}', topic => '$topic'" . ($more // '') . ')') }
my $test = { payload => { mark => 'test' }, routing => { audience => { type => 'USER', targets => ['u1'] } } };

# The paths are available to admins, with the console enabled, and to pages of the same host.
for ([ GET => '/v1/console/latest' ], [ GET => '/v1/console/rules' ], [ GET => '/v1/console/user?id=u1' ], [ POST => '/v1/console/notifications', $test ])
{
    my ($method, $path, $body) = @$_;
    is(http($method, $path, body => $body, relay => $without)->{status}, 404, "$path returns 404 unless gate.console is on");
    is(http($method, $path, body => $body, token => 0)->{status}, 401, "$path without a token is rejected");
    my $response = http($method, $path, body => $body, claims => { admin => JSON::false });
    is_deeply([ $response->{status}, $response->{json}{code} ], [ 403, 103 ], "$path without the admin claim is rejected");
    is(http($method, $path, body => $body, headers => { Origin => $_ })->{status}, 403, "pages of $_ are rejected") for 'https://app.example', 'null';
}
is(http(POST => '/v1/console/latest', body => {})->{status}, 405, 'each path accepts only its method');

# The live tail lists the newest notifications.
is_deeply([ latest() ], [], 'the tail is empty before the first notification');
my $first = notify('u1,u2,u3,u4,u5', 'app.first', ', ack_required => true');
my $second = notify('u1', 'app."odd\\topic"');
wait_until('both notifications are stored', sub { latest() == 2 });
my ($newer, $older) = latest();
is_deeply([ @$older{qw(id topic operation priority audience targets target_count ack attempt)} ],
    [ $first, 'app.first', 'notify', 'NORMAL', 'USER', [ 'u1', 'u2', 'u3' ], 5, JSON::true, 0 ], 'an entry of the tail contains all fields');
is_deeply([ @$newer{qw(id topic ack)} ], [ $second, 'app."odd\\topic"', JSON::false ], 'the tail lists the newest entry first, regardless of its topic');
unlike(http(GET => '/v1/console/latest')->{body}, qr/secret|payload/, 'the tail contains no payload');
is_deeply([ map { $_->{id} } latest("?after=$older->{entry}") ], [$second], 'after= returns only later entries');
is_deeply([ latest("?after=$newer->{entry}") ], [], 'after= the newest entry returns no entries');
is(http(GET => "/v1/console/latest?after=18446744073709551615-18446744073709551615")->{status}, 200, 'no entry is after the last id');
is(http(GET => "/v1/console/latest?after=$_")->{status}, 400, "after=$_ is rejected") for 'x', '1-', '9' x 50, '(1-1';
notify('u9', "app.n$_") for 1 .. 55;
wait_until('all notifications are stored', sub { my ($top) = latest(); $top && $top->{topic} eq 'app.n55' });
is(scalar(latest()), 50, 'the tail returns at most one page');
$store->execute('XADD', ($store->keys('stream'))[0], '*', id => 'z', data => 'no JSON', route => '');
is((latest())[0]{id}, 'z', 'a malformed entry does not hide other entries');

# The user view lists the user's relays, connections and pending notifications.
is_deeply([ map { user('u1')->{$_} } 'connections' ], [0], 'the user view finds a user who is not connected');
is_deeply([ @{ user('u1')->{user} }{qw(pending relays)} ], [ 1, [] ],
    'the user view contains the number of pending notifications');
my ($waits) = @{ user('u1')->{user}{oldest} };
is_deeply([ @$waits{qw(id topic)} ], [ $first, 'app.first' ],
    'the user view lists the id and topic of a pending notification');
my @clients = map { $relay->client('u1', Origin => 'https://app.example') } 1, 2;
wait_until('the user view lists the user\'s relay', sub { @{ user('u1')->{user}{relays} } == 1 });
is(user('u1')->{connections}, 2, 'the user view counts both connections of the user');
is(user('nobody')->{connections}, 0, 'the user view counts no connections of other users');
is_deeply([ @{ user('nobody')->{user} }{qw(pending oldest)} ], [ 0, [] ], 'an unknown user has no pending notifications');
is(user('u%2F1%20x')->{user}{pending}, 0, 'the user view finds a user name that must be escaped');
$clients[0]->ack($first);
wait_until('the ack is stored', sub { user('u1')->{user}{pending} == 0 });
is(user('u2')->{user}{pending}, 1, 'the user view counts only the notifications of that user');
is(http(GET => "/v1/console/user$_")->{status}, 400, 'a request without a user is rejected') for '', '?id=', '?id=' . 'x' x 300;
notify('u7', "app.w$_", ', ack_required => true') for 1 .. 25;
wait_until('all notifications are pending', sub { user('u7')->{user}{pending} == 25 });
my @oldest = @{ user('u7')->{user}{oldest} };
is_deeply([ scalar @oldest, $oldest[0]{topic} ], [ 20, 'app.w1' ], 'the user view returns one page, oldest first');

# A test notification requires the publish claim and is sent from the console page.
is(http(POST => '/v1/console/notifications', body => $test)->{status}, 403, 'a test notification requires the publish claim');
my $sent = http(POST => '/v1/console/notifications', body => $test, claims => { publish => JSON::true }, headers => { Origin => 'http://x' });
is($sent->{status}, 201, 'a test notification with the claim is accepted');
$clients[1]->run_until('the notification arrives', sub { of_mark($clients[1], 'test') });
is((of_mark($clients[1], 'test'))[0]{metadata}{id}, $sent->{json}{id}, 'a test notification is delivered');
is(http(POST => '/v1/console/notifications', body => $test, claims => { publish => JSON::true, admin => JSON::false })->{status}, 403, 'the publish claim does not grant access to the console');

# The overview contains topics of pending notifications, the version and the uptime.
my $now = http(GET => '/v1/console')->{json};
is((grep { $_->{id} eq $first } @{ $now->{store}{oldest} })[0]{topic}, 'app.first', 'the overview contains the topic of a pending notification');
like($now->{relay}{version}, qr/^\d+\.\d+\.\d+$/, 'the overview contains the version');
cmp_ok($now->{relay}{uptime}, '>=', 0, 'the overview contains the uptime');

# The rules are read from the database on request. The feed's own connection reads the status of the server.
sub rules { return wait_until('the rules are read', sub { http(GET => '/v1/console/rules')->{json}{rules} }) }
sub readers { return $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'relay' AND backend_type = 'client backend' AND query !~ 'clairon.denials|client_connection_check'}) }
is(readers(), 0, 'no database connection is open before the first request');
is_deeply(rules(), [], 'the list of rules is empty before a rule is created');
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true, only_when => 'id > 1', live => true);
    SELECT clairon.watch('t', 'ROLE', '=' || (SELECT string_agg('role' || n, ',') FROM generate_series(1, 100) n), name => 'many', priority => 'HIGH')});
wait_until('both rules are listed', sub { @{ rules() } == 2 });
my ($default, $many) = @{ rules() };
is_deeply([ @$default{qw(relation name audience targets operations type priority ack_required live)} ],
    [ 't', 'default', 'USER', 'owner', [ 'create', 'update', 'delete' ], 'REALTIME', 'NORMAL', JSON::true, JSON::true ], 'a rule is returned with its parameters');
like($default->{only_when}, qr/id > 1/, 'a rule is returned with its condition');
is(length $many->{targets}, 200, 'long lists of targets are truncated');
is(readers(), 1, 'all requests use one database connection');
wait_until('the idle database connection is closed', sub { readers() == 0 });
is(http(GET => '/v1/console/rules', relay => $without)->{status}, 404,
    'the path of the rules returns 404 if the console is disabled');

# The reason of a red badge.
sub state_of_feed { return map { $_ // '' } @{ http(GET => '/v1/console')->{json}{relay} }{qw(feed reason)} }
is_deeply([ state_of_feed() ], [ 'streaming', '' ], 'the overview contains the state of the feed');
$pg->stop;
wait_until('the overview contains the reason why the feed is down', sub { join(' ', state_of_feed()) =~ /^down (?:could not connect|PostgreSQL connection lost).*:/i });
pass('the reason contains the error');
$pg->start;
wait_until('the feed streams again, without a reason', sub { join(' ', state_of_feed()) eq 'streaming ' });

$store->stop;
wait_until('the relay has lost its store connection', sub { !defined http(GET => '/v1/console')->{json}{store} });
is(http(GET => $_)->{status}, 503, "$_ returns 503 while the store is down") for '/v1/console/latest', '/v1/console/user?id=u1';

done_testing();
