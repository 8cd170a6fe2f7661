# Can the key of tokens be changed under a running relay, without a moment in which good tokens are refused?
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch);
use Clairon::Test::RawSocket;
use Test::More;

my $store = Clairon::Test::store();
my $file  = scratch() . '/key';

sub write_key
{
    my ($text) = @_;
    open my $out, '>', "$file.new" or die "could not write: $!";
    print {$out} $text;
    close $out;
    rename "$file.new", $file or die "could not rename: $!";
    return;
}

my ($first, $second, $third) = map { $_ x 40 } 'a', 'b', 'c';
write_key("$first\n");
for my $workers (1, 2)
{
    write_key("$first\n");
    my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
        conf => { 'auth.hs256_secret_file' => $file, 'gate.workers' => $workers });

    # Whether every worker lets in a token of that key.
    my $lets_in = sub {
        my ($secret) = @_;
        my %said;
        for (1 .. 8 * $workers)
        {
            my $raw = Clairon::Test::RawSocket->open($relay);
            $raw->send_json({ t => 'connect', token => token(sub => 'u1', secret => $secret) });
            my $line = $raw->next_message;
            $said{ $line->{t} eq 'connected' ? 'yes' : 'no' }++;
            $raw->disconnect;
        }
        return join ' and ', sort keys %said;
    };
    my $reload = sub {
        my ($words) = @_;
        my $mark = $relay->log_mark;
        kill HUP => $relay->pid;
        wait_until('all have read it', sub { $workers <= (() = $relay->log_text($mark) =~ /\Q$words\E/g) });
    };

    is($lets_in->($first),  'yes', "$workers: the key it began with");
    is($lets_in->($second), 'no',  "$workers: no other");
    my $stays = Clairon::Test::RawSocket->user($relay, 'u2', token => token(sub => 'u2', secret => $first));
    write_key($second);
    is($lets_in->($second), 'no', "$workers: a file that changes changes nothing yet");
    $reload->('auth key changed');
    is($lets_in->($second), 'yes', "$workers: after SIGHUP the new key");
    is($lets_in->($first),  'yes', "$workers: and still the one before");
    write_key('too short');
    $reload->('auth key unchanged');
    is($lets_in->($second), 'yes', "$workers: a file that holds no key changes nothing");
    unlink $file;
    $reload->('auth key unchanged');
    is($lets_in->($first), 'yes', "$workers: nor does one that is gone");
    write_key($third);
    $reload->('auth key changed');
    is($lets_in->($third),  'yes', "$workers: the third key");
    is($lets_in->($second), 'yes', "$workers: and the second");
    is($lets_in->($first),  'no',  "$workers: but the first no more");
    $reload->('auth key file unchanged" hint="the previous key is accepted');
    is($lets_in->($second), 'yes', "$workers: SIGHUP for something else ends no rotation");
    utime time() + 5, time() + 5, $file;
    $reload->('previous key revoked');
    is($lets_in->($third),  'yes', "$workers: SIGHUP once it was touched: the third");
    is($lets_in->($second), 'no',  "$workers: alone");
    $stays->send_json({ t => 'ping' });
    is($stays->wait_message('pong')->{t}, 'pong', "$workers: who was in stays in");
    if ($workers > 1)
    {
        write_key($second);
        $reload->('auth key changed');
        kill KILL => (Clairon::Test::children($relay->pid))[0];
        wait_until('another worker runs', sub { $workers < (() = $relay->log_text =~ /msg="started" pid=/g) });
        is($lets_in->($second), 'yes', "$workers: a worker that is started later knows the new key");
        is($lets_in->($third),  'yes', "$workers: and the one before");
        is($lets_in->($first),  'no',  "$workers: and not those of old");
    }
    unlike($relay->log_text, qr/a{20}|b{20}|c{20}/, "$workers: no key is in the log");
    is($relay->stop, 0, "$workers: SIGTERM ends the relay in good order");
}

done_testing();
