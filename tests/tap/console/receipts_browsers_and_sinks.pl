# Tests that the console returns to admins the receipts of one notification, the browsers of a user without their endpoints,
# with the last failure of their push service, and each sink with its relays and its last failure.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use Clairon::Test::Receipts;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

# The receiver's keys in the example of RFC 8291.
my %KEYS = (p256dh => 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4', auth => 'BTBZMqHH6r4Tts7J_aSIgg');

my ($program, $key) = (Clairon::Test::program(), scratch() . '/vapid');
system("umask 077; '$program' vapid >'$key'") == 0 or die "could not create a key\n";

$ENV{CLAIRON_TEST_SHARDS} = 4;
my $pg      = Clairon::Test::postgresql('main');
my $store   = Clairon::Test::store();
my $service = Clairon::Test::PushService->new;
my %conf    = ('gate.console' => 'on');
my $relay = Clairon::Test::relay($pg, $store, conf => { %conf, 'receipts.sql' => 'true', 'webpush.vapid_key_file' => $key,
    'webpush.subject' => 'mailto:ops@example.org', 'webpush.app_url' => 'https://app.example/',
    'webpush.origins' => 'https://fcm.googleapis.com, ' . $service->origin, 'webpush.allow_private' => 'on' });
my $plain = Clairon::Test::relay(undef, $store, roles => 'gate', conf => \%conf);

sub http
{
    my ($path, %options) = @_;
    my %claims = (sub => 'root', admin => JSON::true, %{ $options{claims} // {} });
    return Clairon::Test::RawSocket->new($options{relay} // $relay)->request($options{method} // 'GET', $path, Host => 'x', ':body' => $options{body},
        (($options{token} // 1) ? (Authorization => 'Bearer ' . token(%claims)) : ()));
}

for my $path ('/v1/console/receipts?id=018f0000-0000-7000-8000-000000000001', '/v1/console/subscriptions?id=u1')
{
    is(http($path, token => 0)->{status}, 401, "$path without a token is rejected");
    is(http($path, claims => { admin => JSON::false, publish => JSON::true })->{status}, 403, "$path without the admin claim is rejected");
}
is(http("/v1/console/receipts$_")->{status}, 400, "receipts$_ is rejected") for '', '?id=', '?id=x', '?id=018f0000-0000-7000-8000-000000000001&after=x';
is(http("/v1/console/subscriptions$_")->{status}, 400, "subscriptions$_ is rejected") for '', '?id=';

# The receipts of one notification, among those of others.
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $id       = '018f0000-0000-7000-8000-00000000abcd';
my @own      = map { [ $receipts->add({ notification => $id, shard => 1, %$_ }) ]->[0] } { user_id => 'u1', outcome => 'escalated' }, { user_id => 'u1' };
$receipts->add_many(60);
push @own, $receipts->add({ notification => $id, shard => 1, user_id => '', acked => 1, recipients => 1 });

sub receipts_after { my ($after) = @_; return http("/v1/console/receipts?id=\U$id\E&after=$after")->{json} }
my $page = receipts_after('');
is_deeply([ map { $_->{id} } @{ $page->{receipts} } ], \@own, 'only the receipts of the notification are returned, oldest first');
is_deeply(receipts_after($page->{next}), { receipts => [], next => $page->{next} }, 'the cursor of the last page returns no receipts, and itself');
my $later = 'ffff' . substr $id, 4;
$receipts->add({ notification => $later });
is_deeply(http("/v1/console/receipts?id=$later")->{json}{receipts}, [], 'receipts from before the commit are not read');

# The browsers of a user.
my $endpoint = 'https://fcm.googleapis.com/fcm/send/secret';
my $before   = time;
is(http('/v1/webpush/subscriptions', method => 'POST', body => { endpoint => $endpoint, keys => \%KEYS }, claims => { sub => 'u1' })->{status}, 201, 'a browser is registered');
my $response = http('/v1/console/subscriptions?id=u1');
my ($browser) = @{ $response->{json}{subscriptions} };
is($browser->{origin}, 'https://fcm.googleapis.com', 'the origin of an endpoint is returned');
cmp_ok($browser->{renewed_at} / 1000, '>=', $before, 'with the time of its last renewal');
unlike($response->{body}, qr/secret/, 'without the endpoint, with which anybody could send');
is_deeply([ @{$browser}{qw(failed_at reason)} ], [ 0, '' ], 'no Web Push to it has failed');
is_deeply(http('/v1/console/subscriptions?id=u2')->{json}{subscriptions}, [], 'another user has no browsers');

# A push service that rejects a Web Push.
for my $path ('201/u3', '403/u3')
{
    my $body = $service->subscription($path);
    is(http('/v1/webpush/subscriptions', method => 'POST', body => $body, claims => { sub => 'u3' })->{status}, 201, "the browser $path is registered");
}
http('/v1/webpush/test', method => 'POST', body => {}, claims => { sub => 'u3' });
sub failures { return map { $_->{failed_at} ? $_ : () } @{ http('/v1/console/subscriptions?id=u3')->{json}{subscriptions} } }
wait_until('the failure of one browser is returned', sub { failures() == 1 });
my ($failed) = failures();
is($failed->{reason}, 'status 403', 'with its reason');
cmp_ok($failed->{failed_at} / 1000, '>=', $before, 'and its time');
my @names = grep { /push_failure/ } @{ $store->execute('KEYS', '*') };
is(scalar(@names), 1, 'the store has one failure');
cmp_ok($store->execute('PTTL', $names[0]), '>', 0, 'for a time');

# The sinks.
sub overview { my ($of) = @_; return http('/v1/console', relay => $of)->{json} }
wait_until('the sink sends its heartbeat', sub { @{ overview()->{store}{sinks} } });
my $state = overview();
my ($sql, $pushes) = @{ $state->{sinks} };
is_deeply($sql, { name => 'sql', failing => JSON::false, failed_at => 0, reason => '' }, 'the overview contains the sinks of the relay');
is_deeply([ @{$pushes}{qw(name failed_at reason)} ], [ 'webpush', $failed->{failed_at}, $service->origin . ': status 403' ], 'that of Web Pushes with its last failure');
is_deeply([ map { $_->{name} } @{ $state->{store}{sinks} } ], ['sql'], 'and the relays that serve a sink');
is($state->{store}{sinks}[0]{relay}, $state->{relay}{name}, 'by their names');
ok($state->{webpush}, 'and whether the relay sends Web Pushes');
my $other = overview($plain);
is_deeply([ $other->{sinks}, $other->{store}{sinks}[0]{relay} ], [ [], $state->{relay}{name} ], 'another relay knows which one serves the sink');
ok(!$other->{webpush}, 'a relay without a key sends no Web Pushes');

$pg->stop;
wait_until('the overview contains the last failure of the sink', sub { (overview()->{sinks}[0]{reason} // '') =~ /primary.*: ./ });
cmp_ok(overview()->{sinks}[0]{failed_at} / 1000, '>=', $before, 'with its time');
ok(overview()->{sinks}[0]{failing}, 'it lasts');
sub attempts { return scalar(() = map { $_->log_text =~ /could not connect to PostgreSQL/g } $relay, $plain) }
wait_until('the feed fails to reconnect', sub { attempts() >= 3 });
$pg->start;
wait_until('the sink recovers without a receipt', sub { !overview()->{sinks}[0]{failing} });
cmp_ok(overview()->{sinks}[0]{failed_at}, '>', 0, 'its last failure is still known');
wait_until('the feed streams', sub { $relay->metric('clairon_feed_connected') + $plain->metric('clairon_feed_connected') == 1 });
is($relay->metric('clairon_feed_reconnects_total') + $plain->metric('clairon_feed_reconnects_total'), 1,
    'the stream that ended is counted, not the failed attempts to reconnect');

done_testing();
