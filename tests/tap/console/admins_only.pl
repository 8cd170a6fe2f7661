# Tests that the console is available only when enabled and only for admins, that its data is correct, and that admins
# can redrive and drop error log entries.
use strict;
use warnings;

use Clairon::Test qw(wait_until token of_mark audited);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.console' => 'on', 'gate.origins' => 'https://app.example',
    'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms' });
my $without = Clairon::Test::relay(undef, $store, roles => 'gate');

sub http
{
    my ($method, $path, %options) = @_;
    my %claims = (sub => 'root', admin => JSON::true, %{ $options{claims} // {} });
    return Clairon::Test::RawSocket->new($options{relay} // $relay)->request($method, $path, Host => 'x', ':body' => $options{body},
        (($options{token} // 1) ? (Authorization => 'Bearer ' . token(%claims)) : ()), %{ $options{headers} // {} });
}
sub overview { return http(GET => '/v1/console')->{json} }
sub errors { my ($query) = @_; return @{ http(GET => '/v1/console/errors' . ($query // ''))->{json}{errors} } }
sub change_entry { my ($verb, $entry) = @_; return http(POST => "/v1/console/$verb", body => { entry => $entry }) }
sub notify { my ($targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$targets}', '{\"mark\": \"$mark\"}', ack_required => true, $more)") }

my @data = ([ GET => '/v1/console' ], [ GET => '/v1/console/errors' ], [ POST => '/v1/console/redrive', '{}' ], [ POST => '/v1/console/drop', '{}' ]);
my @page = ([ GET => '/console' ], [ GET => '/console/console.css' ], [ GET => '/console/console.js' ]);

# By default, the console is disabled for all users.
is(http($_->[0], $_->[1], body => $_->[2], relay => $without)->{status}, 404, "$_->[1] returns 404 unless gate.console is on") for @data, @page;

# The page contains no data and loads nothing from other hosts.
for (@page)
{
    my $response = http(@$_, token => 0);
    my $policy = $response->{headers}{'content-security-policy'} // '';
    is($response->{status}, 200, "$_->[1] is public");
    like($policy, qr/default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/, "$_->[1] has a strict content security policy");
    like($policy, qr/form-action 'none'; frame-ancestors 'none'/, "$_->[1] forbids framing");
    unlike($policy, qr/unsafe/, "$_->[1] allows no unsafe content");
    is($response->{headers}{'x-content-type-options'}, 'nosniff',
        "$_->[1] has X-Content-Type-Options: nosniff");
    unlike($response->{body}, qr{(?:https?:)?//[a-z0-9.-]+\.[a-z]}i, "$_->[1] refers to no other host") if $_->[1] !~ /js$/;
    is(length http(HEAD => $_->[1], token => 0)->{body}, 0, 'HEAD returns no body');
}
my $html = http(GET => '/console', token => 0)->{body};
unlike($html, qr/<script>|<script[^>]*>[^<]|\son[a-z]+=|<style|\sstyle=/i, 'the page contains no inline script or style');
is(http(POST => '/console', body => '')->{status}, 405, 'the page accepts only GET and HEAD');
my $folder = http(GET => '/console/', token => 0);
is_deeply([ $folder->{status}, $folder->{headers}{location} ], [ 308, '../console' ], 'a path with a trailing slash is redirected, even behind a proxy');
is(http(GET => '/console/', relay => $without)->{status}, 404,
    'a path with a trailing slash returns 404 if the console is disabled');

# The data is available to admins, and to pages of the same host.
for (@data)
{
    my ($method, $path, $body) = @$_;
    is(http($method, $path, body => $body, token => 0)->{status}, 401, "$path without a token is rejected");
    my $response = http($method, $path, body => $body, claims => { admin => JSON::false, publish => JSON::true });
    is($response->{status}, 403, "$path without the admin claim is rejected");
    is($response->{json}{code}, 103, "$path without the admin claim returns code 103");
    is(http($method, $path, body => $body, claims => { admin => 1 })->{status}, 403, 'an admin claim that is not a boolean is rejected');
    is(http($method, $path, body => $body, claims => { exp => time() - 60 })->{status}, 401, 'an expired token is rejected');
    is(http($method, $path, body => $body, headers => { Origin => $_ })->{status}, 403, "pages of $_ are rejected")
      for 'https://app.example', 'http://evil.example', 'null';
    isnt(http($method, $path, body => $body, headers => { Origin => 'http://x:1' })->{status}, 403, 'a page of the same host is accepted');
}

# The overview agrees with the state of the relay.
my ($one, $two) = map { $relay->client($_, Origin => 'https://app.example') } 'u1', 'u2';
my $waits = notify('away,u1', 'waits', 'retry_limit => 100');
$one->run_until('the notification arrives', sub { of_mark($one, 'waits') });
wait_until('the relay reports its users', sub { ((overview()->{store}{relays} // [])->[0]{users} // 0) == 2 });
my $now = overview();
is($now->{relay}{ready}, JSON::true, 'the overview reports the relay as ready');
is($now->{relay}{feed}, 'streaming', 'the overview reports the feed as streaming');
is($now->{relay}{store}, 'up', 'the overview reports the store as up');
is($now->{relay}{reason}, undef, 'a streaming feed has no reason');
is($now->{stats}{clairon_gate_connections}, 2, 'the overview counts two connections');
is($now->{stats}{clairon_gate_connections}, $relay->metric('clairon_gate_connections'), 'the overview agrees with the metrics');
is($now->{slot}{name}, 'clairon', 'the overview contains the name of the slot');
cmp_ok($now->{slot}{lag}, '>=', 0, 'the overview contains the lag of the slot');
is($now->{store}{pending}, 1, 'the overview counts one pending notification');
is($now->{store}{errors}, 0, 'the overview counts no errors');
cmp_ok($now->{store}{entries}, '>=', 1, 'the overview counts the stream entries');
cmp_ok($now->{store}{memory}, '>', 100_000, 'the overview contains the memory of the store');
my ($pending) = @{ $now->{store}{oldest} };
is_deeply([ @$pending{qw(id users open ends)} ], [ $waits, 2, JSON::false, undef ], 'the oldest pending notification is listed with its number of users');
cmp_ok(abs($now->{store}{at} - $pending->{since}), '<', 600_000,
    'the oldest pending notification is listed with its time');
is(scalar(grep { $_->{name} eq $now->{relay}{name} } @{ $now->{store}{relays} }), 1, 'the list of relays contains this relay');
is_deeply([ sort @{ http(GET => "/v1/notifications/$waits")->{json}{waiting} } ], [ 'away', 'u1' ], 'an admin may read a trace with the pending users');
$one->ack($waits);
wait_until('the notification is pending for one user', sub { overview()->{store}{oldest}[0]{users} == 1 });

# Error log pages list entries from newest to oldest and omit long values.
my %users = map { $_ => $_ % 2 ? 'u1' : 'u1,u2' } 1 .. 25;
my @ids = map { notify($users{$_}, "no $_", q{retry_limit => 0, ack_timeout => '1 hour'}) } 1 .. 25;
$store->make_due($ids[ $_ - 1 ], split /,/, $users{$_}) for 1 .. 25;
wait_until('all notifications are exhausted', sub { overview()->{store}{errors} == 25 });
my @first = errors();
is(scalar @first, 20, 'the first page of the error log has 20 entries');
my @second = errors("?before=$first[-1]{entry}");
is(scalar @second, 5, 'the second page has the remaining entries');
is_deeply([ sort map { $_->{id} } @first, @second ], [ sort @ids ], 'each entry is on exactly one page');
is_deeply([ map { $_->{at} } @first, @second ], [ sort { $b <=> $a } map { $_->{at} } @first, @second ], 'the entries are listed newest first');
my ($last) = grep { $_->{notification}{payload}{mark} eq 'no 24' } @first;
is_deeply([ @$last{qw(reason attempts user_count)}, sort @{ $last->{users} } ], [ 'exhausted', 0, 2, 'u1', 'u2' ], 'an error log entry contains its reason and users');
is_deeply([ errors('?before=0-0') ], [], 'no entry is before the first id');
is(http(GET => "/v1/console/errors?before=$_")->{status}, 400, "before=$_ is rejected") for 'x', '1-', '9' x 50, '(1-1';

# A redrive sends the notification to its users again.
my $had = of_mark($one, 'no 24');
my $response = change_entry('redrive', $last->{entry});
is($response->{status}, 200, 'a redrive is accepted');
is($response->{json}{users}, 2, 'a redrive returns the number of users');
$_->run_until('a retry arrives', sub { of_mark($_, 'no 24') > 1 }) for $one, $two;
$_->ack($last->{id}) for $one, $two;
wait_until('both users have acknowledged', sub { !$store->execute('HEXISTS', $store->of($last->{id}, 'pending'), $last->{id}) });
is(change_entry('redrive', $last->{entry})->{status}, 404, 'the redriven entry is deleted');
is((grep { $_->{stage} eq 'acked' } @{ http(GET => "/v1/notifications/$last->{id}")->{json}{events} }), 2, 'the trace contains both acks');
my @stages = map { $_->{stage} } @{ http(GET => "/v1/notifications/$last->{id}")->{json}{events} };
is((grep { $_ eq 'errored' } @stages), 2, 'the trace still contains the earlier errors');

# A drop deletes the entry.
my ($drop) = grep { $_->{id} ne $last->{id} } @first;
is(change_entry('drop', $drop->{entry})->{status}, 200, 'a drop is accepted');
is(change_entry('drop', $drop->{entry})->{status}, 404, 'a second drop of the same entry returns 404');
is(overview()->{store}{errors}, 23, 'the redriven and the dropped entry are deleted');
unlike($relay->log_text, qr/"no 24"/, 'the log contains no payload');
is_deeply([ grep { /\Q$drop->{entry}\E|\Q$last->{entry}\E/ } audited($relay->log_text) ],
    [ map { my ($act, $entry) = @$_; (qq(act="$act" object="error log: entry $entry->{entry}")) x 2 } [ redrive => $last ], [ drop => $drop ] ], 'each request is audited');
like($relay->log_text, qr/^component=audit .* actor="root" act="drop"/m, 'with the user of the token');

# Invalid bodies are rejected, and malformed entries can be dropped.
is(http(POST => "/v1/console/$_->[0]", body => $_->[1])->{status}, 400, "$_->[0] with the body $_->[1] is rejected")
  for map { my $verb = $_; map { [ $verb, $_ ] } '', '{}', '[]', '{"entry":1}', '{"entry":"x"}', '{"entry":"1-1","more":1}', '{"entry":"' . '1' x 60 . '"}' } 'redrive', 'drop';
$store->execute('XADD', $store->shared('errors'), '*', id => 'x', reason => 'undecodable', attempts => 0, users => '[]', data => '{"a":"' . 'b' x 9000 . '"}', route => 'bad');
my ($odd) = errors();
is_deeply([ @$odd{qw(notification user_count)} ], [ undef, 0 ], 'a long notification is omitted');
is(change_entry('redrive', $odd->{entry})->{status}, 422,
    'an error log entry without a notification cannot be redriven');
is(change_entry('drop', $odd->{entry})->{status}, 200, 'an error log entry without a notification can be dropped');
$store->execute('XADD', $store->shared('errors'), '*', id => 'y');
is((errors())[0]{id}, 'y', 'an error log entry without fields does not hide other entries');
is(change_entry('drop', (errors())[0]{entry})->{status}, 200, 'a dead letter without fields can be dropped');

# For many users, the log lists the first users and the total number.
my $many = join ',', map { "m$_" } 1 .. 300;
notify($many, 'many', "retry_limit => 1, ttl => '1 hour'");
wait_until('the notification is stored', sub { overview()->{store}{pending} == 2 });
my ($large) = grep { $_->{users} == 300 } @{ overview()->{store}{oldest} };
ok($large, 'a large audience is returned as its number of users');
$store->execute('ZADD', $store->of($large->{id}, 'due'), 1, "$large->{id}:");
wait_until('the notification has expired', sub { grep { $_->{id} eq $large->{id} } errors() });
my ($expired) = grep { $_->{id} eq $large->{id} } errors();
is_deeply([ $expired->{reason}, $expired->{user_count}, scalar @{ $expired->{users} } ], [ 'expired', 300, 20 ], 'the error log truncates a long list of users');
is(change_entry('redrive', $expired->{entry})->{json}{users}, 300,
    'a redrive of an entry with a truncated user list reaches all its users');

# The store is unreachable.
$store->stop;
wait_until('the relay has lost its store connection', sub { my $seen = overview(); $seen && !defined $seen->{store} && $seen->{relay}{store} eq 'down' });
is(http(GET => '/v1/console/errors')->{status}, 503, 'the error log returns 503 while the store is down');
is(change_entry('drop', '1-1')->{status}, 503, 'a change returns 503 while the store is down');
$store->start;
wait_until('the relay has reconnected to the store', sub { defined overview()->{store} });
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
